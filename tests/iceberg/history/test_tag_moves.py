from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from icefloe.iceberg.history.history import ExpiredHistoryError, NotAnAncestorError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import appended, as_replace, edit_metadata, rows, snapshot_ids


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four commits, the second of them tagged."""
    made = appended(tmp_path, 4)
    move(made, snapshot_ids(made)[1])
    return made


def move(table: Table, snapshot_id: int) -> int:
    """Point the tag to a snapshot; when that was."""
    changes = table.manage_snapshots()
    if "v" in table.metadata.refs:
        changes = changes.remove_tag("v")
    changes.create_tag(snapshot_id, "v").commit()
    return table.metadata.last_updated_ms


def moved(table: Table, after_snapshot_id: int, *, tag: str = "v", on_rollback: Any = "fail") -> SnapshotRange:
    loaded = LoadedTable(table)
    passage = Passage.of_tag(loaded, tag=tag, after_snapshot_id=after_snapshot_id, on_rollback=on_rollback)
    return SnapshotRange.of_passage(passage, loaded)


@pytest.mark.parametrize("moves", [[0], [3, 0, 3]], ids=["back", "forward in the end"])
def test_a_tag_that_was_moved_is_one_step_between_two_states_at_the_time_of_the_move(
    table: Table, moves: list[int]
) -> None:
    ids = snapshot_ids(table)
    assert moved(table, ids[1]).steps == ()
    for to in moves:
        moved_ms = move(table, ids[to])
    for number in range(12):
        table.append(rows(100 + number))
    found = moved(table, ids[1], on_rollback="compensate")
    [step] = found.steps
    assert (step.kind, step.start_snapshot_id, step.end_snapshot_id) == (StepKind.STATES, ids[1], ids[to])
    assert (step.commit_snapshot_id, step.commit_timestamp_us) == (ids[to], moved_ms * 1000)
    assert (found.after_snapshot_id, found.up_to_snapshot_id) == (ids[1], ids[to])


def test_a_tag_that_was_moved_back_stops_a_pipeline_that_wants_to_fail(table: Table) -> None:
    ids = snapshot_ids(table)
    move(table, ids[0])
    with pytest.raises(NotAnAncestorError, match=f"{ids[1]} is not an ancestor of snapshot {ids[0]}, to which the tag"):
        moved(table, ids[1])
    move(table, ids[3])
    assert moved(table, ids[1]).steps


def test_the_former_snapshot_of_a_tag_may_have_expired(table: Table) -> None:
    ids = snapshot_ids(table)
    move(table, ids[3])
    table.maintenance.expire_snapshots().by_ids(ids[:2]).commit()
    with pytest.raises(ExpiredHistoryError, match=f"{ids[1]}: the catalog gave .*, the oldest is {ids[2]}"):
        moved(table, ids[1], on_rollback="compensate")


def test_a_tag_that_was_moved_over_compactions_alone_has_no_step(table: Table) -> None:
    ids = snapshot_ids(table)
    table.append(rows())
    compaction = snapshot_ids(table)[4]
    as_replace(table, compaction)
    edit_metadata(
        table,
        refs={**table.metadata.refs, "v": table.metadata.refs["v"].model_copy(update={"snapshot_id": compaction})},
    )
    found = moved(table, ids[3])
    assert (found.steps, found.skipped_replace_snapshots, found.up_to_snapshot_id) == ((), 1, compaction)
    assert moved(table, ids[2]).steps
