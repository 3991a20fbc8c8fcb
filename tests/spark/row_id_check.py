"""The steps of a V3 table told by its row ids: the reference for the changes of tables without identifier columns."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.range_check import changes_of
from support.spark.row_counts import Row, difference, rows_of, typed_changes_of, weights_of
from support.spark.spark_table import SparkTable

__all__ = ["check_row_ids", "rows_with_ids"]


def rows_with_ids(table: SparkTable, snapshot_id: int | None) -> Counter[Row]:
    """The rows of a state, each with its row id before its values, as Spark reads them."""
    if snapshot_id is None:
        return Counter()
    return rows_of(table.sql(f"SELECT _row_id, * FROM {{table}} VERSION AS OF {snapshot_id}"))


def check_row_ids(table: SparkTable, **options: Any) -> pa.Table:
    """In every step of the whole range each row id that holds another row is one update, and nothing else is.

    Only for histories in which no row moves from one row id to another inside of a step.

    Returns:
        The changes of the whole range.
    """
    found = changes_of(table, **options)
    by_lineage = changes_of(table, row_lineage="trust", **options)
    assert typed_changes_of(by_lineage) == typed_changes_of(found)
    ends = [None, *table.snapshot_ids()]
    states = [rows_with_ids(table, snapshot_id) for snapshot_id in ends]
    steps = [pair for pair in pairwise(states) if difference(*(_without_ids(state) for state in pair))]
    for ordinal, (start, end) in enumerate(steps):
        step = found.filter(pc.equal(found["_change_ordinal"], ordinal))
        assert weights_of(step) == difference(_without_ids(start), _without_ids(end))
        assert typed_changes_of(step, columns=["_change_type"]) == _expected(start, end)
    assert set(found["_change_ordinal"].to_pylist()) == set(range(len(steps)))
    return found


def _without_ids(state: Counter[Row]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for (_, *row), count in state.items():
        rows[tuple(row)] += count
    return rows


def _expected(start: Counter[Row], end: Counter[Row]) -> Counter[Row]:
    before, after = ({row[0]: row[1:] for row in state} for state in (start, end))
    changed = [row_id for row_id in before.keys() | after.keys() if before.get(row_id) != after.get(row_id)]
    gone, came = (Counter(state[row_id] for row_id in changed if row_id in state) for state in (before, after))
    assert not gone & came, "rows move between row ids"
    expected: Counter[Row] = Counter()
    for row_id in changed:
        is_update = row_id in before and row_id in after
        if row_id in before:
            expected["UPDATE_BEFORE" if is_update else "DELETE", *before[row_id]] += 1
        if row_id in after:
            expected["UPDATE_AFTER" if is_update else "INSERT", *after[row_id]] += 1
    return expected
