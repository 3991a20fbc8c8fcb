from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.history.history import BranchMove, History
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage, landing_after
from support.tables.planning_tables import appended, rows, snapshot_ids


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three commits."""
    return appended(tmp_path, 3)


def passage(table: Table, **options: Any) -> Passage:
    return Passage.find(LoadedTable(table), **options)


def commits(found: Passage) -> list[int]:
    return [snapshot.snapshot_id for snapshot in found.commits]


def test_the_beginning_of_a_passage_ends_with_the_first_of_some_snapshots_or_its_landing(table: Table) -> None:
    first, second, third = snapshot_ids(table)
    found = passage(table, after_snapshot_id=first)
    beginning = found.up_to_first_of({first, second, third})
    assert (beginning.up_to_snapshot_id, commits(beginning)) == (second, [second])
    assert found.up_to_first_of({first, third, 4711}) == found
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows(9))
    found = passage(table, after_snapshot_id=third, on_rollback="compensate")
    beginning = found.up_to_first_of({first})
    assert (beginning.up_to_snapshot_id, commits(beginning), beginning.landing) == (first, [], found.landing)


def history(parents: dict[int, int | None], **options: Any) -> History:
    snapshots = {
        snapshot_id: Snapshot(
            snapshot_id=snapshot_id, parent_snapshot_id=parent, timestamp_ms=snapshot_id * 10, manifest_list=""
        )
        for snapshot_id, parent in parents.items()
    }
    return History(table_name="db.t", snapshots=snapshots, refs={}, **options)


def moves(*ids: int) -> Sequence[BranchMove]:
    return [BranchMove(snapshot_id=snapshot_id, timestamp_ms=1000 + at) for at, snapshot_id in enumerate(ids)]


#     1 - 2 - 3
#      \- 4 - 5 - 6
FORKED = {1: None, 2: 1, 3: 2, 4: 1, 5: 4, 6: 5}


@pytest.mark.parametrize(
    ("log", "after", "up_to", "landing"),
    [
        pytest.param((1, 2, 3, 1), 3, 1, 1, id="a rollback alone"),
        pytest.param((1, 2, 3, 1, 4, 6, 4), 3, 4, 4, id="the last of two rollbacks"),
        pytest.param((1, 2, 3, 4, 6), 3, 6, 4, id="set to the middle of another line"),
        pytest.param((1, 2, 3, 1, 6), 3, 5, 1, id="an end that the log leaves out"),
        pytest.param((1, 2, 3, 6), 3, 5, 1, id="an end inside the commit it moved to"),
        pytest.param((1, 2, 3, 1, 2, 1, 4), 2, 4, 1, id="the last departure counts"),
        pytest.param((), 3, 4, None, id="no log"),
        pytest.param((1, 2, 4), 3, 4, None, id="the start is not in the log"),
        pytest.param((1, 4, 2, 3), 3, 4, None, id="the start comes after the end"),
    ],
)
def test_the_last_move_that_was_no_commit_says_where_main_landed(
    log: tuple[int, ...], after: int, up_to: int, landing: int | None
) -> None:
    found = landing_after(
        history(FORKED), moves(*log), was_head=False, after_snapshot_id=after, up_to_snapshot_id=up_to
    )
    assert (found and found.snapshot_id) == landing


def test_the_time_is_that_of_the_move() -> None:
    found = landing_after(
        history(FORKED), moves(1, 2, 3, 1, 4), was_head=False, after_snapshot_id=3, up_to_snapshot_id=4
    )
    assert found == BranchMove(snapshot_id=1, timestamp_ms=1003)


def test_an_unknown_other_branch_landed_on_the_nearest_common_ancestor() -> None:
    found = landing_after(history(FORKED), (), was_head=True, after_snapshot_id=3, up_to_snapshot_id=6)
    assert found == BranchMove(snapshot_id=1, timestamp_ms=40)


def test_without_a_common_ancestor_it_landed_on_the_end() -> None:
    found = landing_after(
        history({1: None, 2: None}, last_updated_ms=77), (), was_head=True, after_snapshot_id=1, up_to_snapshot_id=2
    )
    assert found == BranchMove(snapshot_id=2, timestamp_ms=77)
