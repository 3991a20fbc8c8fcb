from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.loaded_table import MetadataVersion
from icefloe.iceberg.scan.steps import Publication, group_by_publication, publication


def snapshot(snapshot_id: int, timestamp_ms: int = 0) -> Snapshot:
    return Snapshot(snapshot_id=snapshot_id, parent_snapshot_id=None, timestamp_ms=timestamp_ms, manifest_list="")


class FakeLog:
    """Versions of the metadata, some of them gone."""

    def __init__(self, timestamps_ms: Sequence[int], versions: Mapping[int, set[int] | None]) -> None:
        self.timestamps_ms = timestamps_ms
        self._versions = versions
        self.read: list[int] = []

    def version(self, index: int) -> MetadataVersion | None:
        self.read.append(index)
        ids = self._versions[index]
        if ids is None:
            return None
        return MetadataVersion(snapshot_ids=frozenset(ids), branch_heads={}, last_updated_ms=self.timestamps_ms[index])


def exact(index: int) -> Publication:
    return Publication(absent_index=index - 1, present_index=index)


def ids(groups: Sequence[Sequence[Snapshot]]) -> list[list[int]]:
    return [[member.snapshot_id for member in group] for group in groups]


def test_with_right_clocks_two_versions_prove_where_a_snapshot_appeared() -> None:
    log = FakeLog(range(0, 100, 10), {index: set(range(index + 1)) for index in range(10)})
    assert publication(snapshot(5, timestamp_ms=50), log) == exact(5)
    assert log.read == [5, 4]


@given(st.integers(1, 12), st.data())
def test_wrong_clocks_only_cost_reads(count: int, data: st.DataObject) -> None:
    versions = {index: set(range(index + 1)) for index in range(count)}
    times = data.draw(st.lists(st.integers(0, 100), min_size=count, max_size=count).map(sorted))
    gone = data.draw(st.sets(st.integers(0, count - 2))) if count > 1 else set()
    log = FakeLog(times, {index: None if index in gone else known for index, known in versions.items()})
    wanted = data.draw(st.integers(0, count - 1))
    found = publication(snapshot(wanted, timestamp_ms=data.draw(st.integers(-5, 105))), log)
    readable = [index for index in range(count) if index not in gone]
    assert found.present_index == min(index for index in readable if index >= wanted)
    assert found.absent_index == max((index for index in readable if index < wanted), default=None)
    assert found.is_exact == (found.absent_index is not None and found.present_index - found.absent_index == 1)


def test_snapshots_of_one_version_are_one_group() -> None:
    members = [snapshot(number) for number in range(4)]
    found = group_by_publication(members, [exact(1), exact(2), exact(2), exact(3)])
    assert ids(found.groups) == [[0], [1, 2], [3]]
    assert found.warnings("db.t") == ()


def test_an_unknown_boundary_splits_with_a_warning() -> None:
    before_the_log = Publication(absent_index=None, present_index=0)
    found = group_by_publication([snapshot(number) for number in range(3)], [before_the_log, before_the_log, exact(1)])
    assert ids(found.groups) == [[0], [1], [2]]
    assert ids(found.unknown) == [[0, 1]]
    assert "between 0 and 1 (1 boundaries)" in found.warnings("db.t")[0]


def test_a_version_that_is_gone_hides_only_the_boundaries_it_could_prove() -> None:
    over_the_hole = Publication(absent_index=1, present_index=3)
    found = group_by_publication(
        [snapshot(number) for number in range(4)], [exact(1), over_the_hole, over_the_hole, exact(4)]
    )
    assert ids(found.groups) == [[0], [1], [2], [3]]
    assert ids(found.unknown) == [[1, 2]]
