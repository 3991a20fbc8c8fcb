from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.loaded_table import MetadataLog, MetadataVersion
from icefloe.iceberg.scan.steps import CommitGroups, are_together, group_commits


def snapshot(snapshot_id: int, timestamp_ms: int = 0) -> Snapshot:
    return Snapshot(snapshot_id=snapshot_id, parent_snapshot_id=None, timestamp_ms=timestamp_ms, manifest_list="")


class FakeLog(MetadataLog):
    """Versions of the metadata, some of them gone."""

    def __init__(self, timestamps_ms: Sequence[int], versions: Mapping[int, set[int] | None]) -> None:
        self.timestamps_ms = [*timestamps_ms]
        self._listed = versions
        self.read: list[int] = []

    def prefetch(self, indices: Iterable[int]) -> None:
        """Nothing is gained."""

    def version(self, index: int) -> MetadataVersion | None:
        self.read.append(index)
        ids = self._listed[index]
        if ids is None:
            return None
        return MetadataVersion(snapshot_ids=frozenset(ids), branch_heads={}, last_updated_ms=self.timestamps_ms[index])


def ids(groups: Sequence[Sequence[Snapshot]]) -> list[list[int]]:
    return [[member.snapshot_id for member in group] for group in groups]


def test_with_right_clocks_two_versions_prove_where_a_snapshot_appeared() -> None:
    log = FakeLog(range(0, 100, 10), {index: set(range(index + 1)) for index in range(10)})
    assert are_together(snapshot(4, timestamp_ms=40), snapshot(5, timestamp_ms=50), log) is False
    assert set(log.read) == {5, 4}


@given(st.integers(2, 12), st.data())
def test_wrong_clocks_only_cost_reads(count: int, data: st.DataObject) -> None:
    """In version n all snapshots up to 2n."""
    times = data.draw(st.lists(st.integers(0, 100), min_size=count, max_size=count).map(sorted))
    gone = data.draw(st.sets(st.integers(0, count - 2)))
    log = FakeLog(times, {index: None if index in gone else set(range(2 * index + 1)) for index in range(count)})
    wanted = data.draw(st.integers(1, 2 * count - 2))
    one, other = (snapshot(each, timestamp_ms=data.draw(st.integers(-5, 105))) for each in (wanted - 1, wanted))
    found = are_together(one, other, log)
    assert found in {wanted % 2 == 0, None}
    assert found is not None or gone


def grouped(log: FakeLog, count: int) -> CommitGroups:
    members = [snapshot(number, timestamp_ms=log.timestamps_ms[-1]) for number in range(count)]
    return group_commits(members, log, commit_groups="fuse")


def test_snapshots_of_one_version_are_one_group() -> None:
    found = grouped(FakeLog([0, 1, 2, 3], {0: set(), 1: {0}, 2: {0, 1, 2}, 3: {0, 1, 2, 3}}), 4)
    assert ids(found.groups) == [[0], [1, 2], [3]]
    assert found.warnings("db.t") == ()


def test_an_unknown_boundary_splits_with_a_warning() -> None:
    found = grouped(FakeLog([0, 1], {0: {0, 1}, 1: {0, 1, 2}}), 3)
    assert ids(found.groups) == [[0], [1], [2]]
    assert ids(found.unknown) == [[0, 1]]
    assert "between 0 and 1 (1 boundaries)" in found.warnings("db.t")[0]


def test_a_version_that_is_gone_hides_only_the_boundaries_it_could_prove() -> None:
    versions = {0: set(), 1: {0}, 2: None, 3: {0, 1, 2}, 4: {0, 1, 2, 3}}
    found = grouped(FakeLog(range(5), versions), 4)
    assert ids(found.groups) == [[0], [1], [2], [3]]
    assert ids(found.unknown) == [[1, 2]]
