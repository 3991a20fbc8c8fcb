import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

import icefloe
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import History, UnknownSnapshotError, is_replace
from icefloe.iceberg.table import ancestry

LIBRARY = Path(icefloe.__file__).parent


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


def parents_followed(file: Path) -> Iterator[str]:
    """The functions of a file that take the parent of a snapshot for more than to compare or to name it."""
    tree = ast.parse(file.read_text())
    around = {inner: outer for outer in ast.walk(tree) for inner in ast.iter_child_nodes(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):  # PyIceberg's own walks look for no circle
            yield from (alias.name for alias in node.names if alias.name.startswith("ancestors_"))
        if not isinstance(node, ast.Attribute) or node.attr != "parent_snapshot_id":
            continue
        outer = around[node]
        if isinstance(outer, ast.Tuple):
            outer = around[outer]
        is_named = isinstance(outer, ast.Call) and ast.unparse(outer.func) in {"id_json", "history.expired"}
        if not is_named and not isinstance(outer, ast.Compare | ast.FormattedValue | ast.keyword):
            while not isinstance(outer, ast.FunctionDef):
                outer = around[outer]
            yield outer.name


def test_parents_are_followed_in_one_place() -> None:
    """Writers of the table wrote them, and they may form a circle, for which that place looks."""
    followed = {file.name: set(parents_followed(file)) for file in LIBRARY.rglob("*.py")}
    assert {name: functions for name, functions in followed.items() if functions} == {"table.py": {"ancestry"}}


def test_a_snapshot_without_a_summary_may_have_changed_rows() -> None:
    bare = Snapshot(snapshot_id=1, parent_snapshot_id=None, timestamp_ms=0, manifest_list="", summary=None)
    assert not is_replace(bare)
    assert is_replace(bare.model_copy(update={"summary": Summary(Operation.REPLACE)}))
