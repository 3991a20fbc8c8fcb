"""Random histories of one branch that moves, followed from cursor to cursor."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import (
    expected_weights,
    live_files,
    make_table,
    plan_range,
    plan_scan_tasks,
    planned_weights,
    rows,
    snapshot_ids,
)

_STEPS = 18


def write(table: Table, random: Random, number: int) -> None:
    """One commit, or one move of main."""
    ids = snapshot_ids(table)
    match random.choice(["append", "delete", "upsert", "upsert", "rollback", "set current"]):
        case "append":
            table.append(rows(100 + number))
        case "delete":
            table.delete(EqualTo(term="id", value=random.randrange(10)))
        case "upsert":
            table.upsert(rows(random.randrange(10), 200 + number, value=str(number)), ["id"])
        case "rollback":
            table.manage_snapshots().rollback_to_snapshot(random.choice(lineage(table))).commit()
        case "set current":
            table.manage_snapshots().set_current_snapshot(random.choice(ids)).commit()


def lineage(table: Table) -> list[int]:
    """The current snapshot and its ancestors."""
    found, snapshot = [], table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot.snapshot_id)
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
    return found


def check_range(table: Table, planned: SnapshotRange) -> None:
    """Each step is the difference of its states, and the steps lead from the start of the range to its end."""
    scan = plan_scan_tasks(table, planned.steps)
    total: Counter[str] = Counter()
    for step in planned.steps:
        weights = planned_weights(scan, step.change_ordinal)
        assert step.start_snapshot_id is not None
        assert weights == expected_weights(table, step)
        assert step.kind is not StepKind.INITIAL
        total.update(weights)
    difference = live_files(table, planned.up_to_snapshot_id)
    difference.subtract(live_files(table, planned.after_snapshot_id))
    assert {path: weight for path, weight in total.items() if weight} == {
        path: weight for path, weight in difference.items() if weight
    }


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_whatever_moves_a_branch_the_cursor_reaches_its_head_by_steps_that_add_up(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    versions_max = random.choice(["1", "3", "100"])
    table = make_table(
        tmp_path, format_version=random.choice([1, 2]), **{"write.metadata.previous-versions-max": versions_max}
    )
    table.append(rows(*range(10)))
    cursor = lineage(table)[0]
    for number in range(_STEPS):
        write(table, random, number)
        # Asleep most of the time, so that moves and commits gather between two ranges.
        is_awake = random.random() < 0.3
        while is_awake and cursor != lineage(table)[0]:
            planned = plan_range(
                table,
                after_snapshot_id=cursor,
                on_rollback="compensate",
                commit_groups=random.choice(["fuse", "split"]),
                max_steps=random.choice([1, 2, 100]),
            )
            assert planned.up_to_snapshot_id not in (None, cursor)
            check_range(table, planned)
            cursor = planned.up_to_snapshot_id or cursor
            is_awake = random.random() < 0.7
