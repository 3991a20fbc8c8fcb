import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import History, UnknownSnapshotError, is_replace


def history(parents: dict[int, int | None]) -> History:
    snapshots = {
        snapshot_id: Snapshot(snapshot_id=snapshot_id, parent_snapshot_id=parent, timestamp_ms=0, manifest_list="")
        for snapshot_id, parent in parents.items()
    }
    return History(table_name="db.t", snapshots=snapshots, refs={})


def test_a_lineage_ends_where_history_expired() -> None:
    assert [snapshot.snapshot_id for snapshot in history({3: 2, 4: 3}).lineage(4)] == [4, 3]
    with pytest.raises(UnknownSnapshotError, match=r"table db\.t has no snapshot 9"):
        history({}).lineage(9)
    with pytest.raises(UnknownSnapshotError, match="the catalog gave 2 snapshots, the oldest is 3 of 1970"):
        history({3: 2, 4: 3}).lineage(2)


def test_an_expired_parent_is_still_an_ancestor() -> None:
    known = history({3: 2, 4: 3})
    assert known.is_ancestor(2, 4)
    assert known.is_ancestor(4, 4)
    assert not known.is_ancestor(1, 4)
    assert not known.is_ancestor(4, 3)
    assert not known.is_ancestor(1, 77)


@pytest.mark.parametrize(("one", "other", "common"), [(3, 5, 1), (3, 2, 2), (4, 4, 4), (3, 6, None)])
def test_the_nearest_common_ancestor_may_be_one_of_the_two(one: int, other: int, common: int | None) -> None:
    assert history({1: None, 2: 1, 3: 2, 4: 1, 5: 4, 6: None}).nearest_common_ancestor(one, other) == common


@pytest.mark.parametrize("parents", [{1: 1}, {1: 2, 2: 1}, {1: 2, 2: 3, 3: 2}])
def test_circles_are_damage(parents: dict[int, int | None]) -> None:
    with pytest.raises(TerminalError, match="is its own ancestor"):
        history(parents).lineage(1)


def test_a_snapshot_without_a_summary_may_have_changed_rows() -> None:
    bare = Snapshot(snapshot_id=1, parent_snapshot_id=None, timestamp_ms=0, manifest_list="", summary=None)
    assert not is_replace(bare)
    assert is_replace(bare.model_copy(update={"summary": Summary(Operation.REPLACE)}))
