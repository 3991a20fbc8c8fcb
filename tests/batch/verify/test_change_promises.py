from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
import pytest

from icefloe.batch.verify.promises import ChangePromises, change_types
from icefloe.changes.columns import BATCH, CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, COMMIT_TIMESTAMP
from icefloe.iceberg.step import Step

Change: TypeAlias = tuple[str | None, int | None, int | None]
"""Type, ordinal and batch."""

STEPS = [Step.initial(11, timestamp_ms=1_000), Step.initial(12, timestamp_ms=2_000)]
COUNTS = {"insert": "INSERT", "delete": "DELETE", "update_before": "UPDATE_BEFORE", "update_after": "UPDATE_AFTER"}
ALONE = "an UPDATE_BEFORE is not followed by its UPDATE_AFTER"
NO_BEFORE = "an UPDATE_AFTER does not follow its UPDATE_BEFORE"
APART = "the two images of an update are of different steps"


def batch_of(changes: Sequence[Change]) -> pa.RecordBatch:
    types, ordinals, batches = (list(column) for column in zip(*changes, strict=True))
    steps = [STEPS[ordinal] if ordinal in (0, 1) else None for ordinal in ordinals]
    times = [None if step is None else step.commit_timestamp_us for step in steps]
    return pa.record_batch({
        BATCH: pa.array(batches, pa.int64()),
        CHANGE_TYPE: pa.array(types, pa.string()),
        CHANGE_ORDINAL: pa.array(ordinals, pa.int32()),
        COMMIT_SNAPSHOT_ID: pa.array([None if step is None else step.commit_snapshot_id for step in steps], pa.int64()),
        COMMIT_TIMESTAMP: pa.array(times, pa.timestamp("us", tz="UTC")),
    })  # fmt: skip


def faults(*parts: Sequence[Change], at_once: int) -> list[str]:
    """Of parts of changes, added some at a time; the manifest's counts are right."""
    promises = ChangePromises(batch_number=3, steps=STEPS, runs=None)
    for part in parts:
        for start in range(0, len(part), at_once):
            batch = batch_of(part[start : start + at_once])
            promises.add(batch, change_types(batch.column(CHANGE_TYPE)), None)
        promises.end_part()
    types = [change[0] for part in parts for change in part]
    return promises.faults({name: types.count(kind) for name, kind in COUNTS.items()})


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([[("INSERT", 0, 3), ("UPDATE_BEFORE", 0, 3), ("UPDATE_AFTER", 0, 3), ("DELETE", 1, 3)]], []),
        ([[("UPSERT", 0, 3)]], ["a _change_type is none of INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER"]),
        ([[(None, 0, 3)]], ["a _change_type is none of INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER"]),
        ([[("INSERT", 0, 3), ("INSERT", 0, 4)]], ["_batch is not 3 everywhere"]),
        ([[("INSERT", 0, 3), ("INSERT", 0, None)]], ["_batch is not 3 everywhere"]),
        ([[("INSERT", 2, 3)]], ["a _change_ordinal is not one of its 2 steps"]),
        ([[("INSERT", -1, 3)]], ["a _change_ordinal is not one of its 2 steps"]),
        ([[("INSERT", None, 3)]], ["a _change_ordinal is not one of its 2 steps"]),
        ([[("UPDATE_BEFORE", 0, 3), ("INSERT", 0, 3)]], [ALONE]),
        ([[("UPDATE_BEFORE", 0, 3)]], [ALONE]),
        ([[("UPDATE_BEFORE", 0, 3)], [("UPDATE_AFTER", 0, 3)]], [ALONE, NO_BEFORE]),
        ([[("UPDATE_AFTER", 0, 3)]], [NO_BEFORE]),
        ([[("UPDATE_BEFORE", 0, 3), ("UPDATE_AFTER", 1, 3)]], [APART]),
    ],
)
def test_each_promise_that_changes_break_is_named_once_however_they_are_cut(
    parts: list[list[Change]], expected: list[str], at_once: int
) -> None:
    assert faults(*parts, at_once=at_once) == expected


@pytest.mark.parametrize(
    ("column", "other"), [(COMMIT_SNAPSHOT_ID, pa.array([12])), (COMMIT_TIMESTAMP, pa.array([7], pa.timestamp("us")))]
)
def test_the_snapshot_or_time_of_another_step_is_named(column: str, other: pa.Array) -> None:
    batch = batch_of([("INSERT", 0, 3)])
    batch = batch.set_column(batch.column_names.index(column), column, other)
    promises = ChangePromises(batch_number=3, steps=STEPS, runs=None)
    promises.add(batch, change_types(batch.column(CHANGE_TYPE)), None)
    assert promises.faults({"insert": 1}) == [f"a {column} differs from its step"]


def test_other_counts_than_those_of_the_manifest_are_named() -> None:
    promises = ChangePromises(batch_number=3, steps=STEPS, runs=None)
    assert promises.faults({}) == []
    [fault] = promises.faults({"insert": 1})
    assert "but its manifest says 1 INSERT" in fault
