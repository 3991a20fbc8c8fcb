import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import History, NotAnAncestorError, is_replace
from icefloe.iceberg.step import ancestry


class Counted(dict[int, Snapshot]):
    """Snapshots that end a walk that does not end by itself."""

    left = 10_000

    def __contains__(self, key: object) -> bool:
        self.left -= 1
        assert self.left > 0, "the walk goes round"
        return super().__contains__(key)


def history(parents: dict[int, int | None]) -> History:
    snapshots = {
        snapshot_id: Snapshot(snapshot_id=snapshot_id, parent_snapshot_id=parent, timestamp_ms=0, manifest_list="")
        for snapshot_id, parent in parents.items()
    }
    return History(table_name="db.t", snapshots=Counted(snapshots), refs={})


def test_a_lineage_ends_where_history_expired() -> None:
    assert [snapshot.snapshot_id for snapshot in history({3: 2, 4: 3}).lineage(4)] == [4, 3]
    with pytest.raises(NotAnAncestorError, match=r"table db\.t has no snapshot 9"):
        history({}).lineage(9)
    with pytest.raises(NotAnAncestorError, match="the catalog gave 2 snapshots, the oldest is 3 of 1970"):
        history({3: 2, 4: 3}).lineage(2)


PARENTS = st.dictionaries(st.integers(-2, 8), st.none() | st.integers(-2, 8), min_size=1)


@given(parents=PARENTS, data=st.data())
def test_whatever_the_parents_say_a_walk_ends_and_shows_each_snapshot_once(
    parents: dict[int, int | None], data: st.DataObject
) -> None:
    known = history(parents)
    start = data.draw(st.sampled_from(sorted(parents)))
    walked = [snapshot.snapshot_id for snapshot in ancestry(known.snapshots, start)]
    assert walked[0] == start
    assert walked[1:] == [parents[child] for child in walked[:-1]]
    assert len(walked) == len(set(walked))
    assert parents[walked[-1]] not in parents or parents[walked[-1]] in walked
    if parents[walked[-1]] in parents:
        with pytest.raises(TerminalError, match="is its own ancestor"):
            known.lineage(start)
    else:
        assert [snapshot.snapshot_id for snapshot in known.lineage(start)] == walked
    for other in parents:
        assert known.is_ancestor(other, start) == (other in walked or other in (parents[each] for each in walked))
        others = [snapshot.snapshot_id for snapshot in ancestry(known.snapshots, other)]
        assert known.nearest_common_ancestor(start, other) == next((each for each in walked if each in others), None)


def test_a_snapshot_without_a_summary_may_have_changed_rows() -> None:
    bare = Snapshot(snapshot_id=1, parent_snapshot_id=None, timestamp_ms=0, manifest_list="", summary=None)
    assert not is_replace(bare)
    assert is_replace(bare.model_copy(update={"summary": Summary(Operation.REPLACE)}))
