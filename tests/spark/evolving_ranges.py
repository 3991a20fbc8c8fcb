"""Ranges of a history whose schema changes, held to what Iceberg's Java reader makes of the states at their ends.

Unlike `range_check` for tables of any type: Spark, which knows no times and no nanoseconds, is not asked.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from spark.range_check import changes_of, check_range
from support.spark.java_states import JavaStates
from support.spark.row_counts import Row
from support.spark.spark_table import SparkTable

__all__ = ["check_evolving_ranges"]

State = Callable[[int | None, int], Counter[Row]]


def check_evolving_ranges(
    table: SparkTable, *, identifier_columns: Sequence[str] = (), state: State | None = None
) -> None:
    """Each step is the difference of its states, in the schema of the range's last snapshot.

    From the beginning to each snapshot, from each snapshot to the next one and to the head.

    Args:
        table: whose commits are one snapshot each, none of them a replace.
        identifier_columns: top-level columns that every schema has.
        state: the rows at a snapshot by the schema of another; default: as Iceberg's generic reader has them.
    """
    java, lineage = JavaStates(table), [None, *table.snapshot_ids()]
    read = cache(state or (lambda snapshot_id, schema_of: java.rows_at(snapshot_id, schema_of=schema_of)))
    for start, stop in _ranges(len(lineage)):
        ends = lineage[start : stop + 1]
        after, up_to = ends[0], ends[-1]
        assert up_to is not None
        found = changes_of(table, after, up_to, identifier_columns=list(identifier_columns))
        check_range(found, {each: read(each, up_to) for each in ends}, ends, identifier_columns)


def _ranges(states: int) -> list[tuple[int, int]]:
    last = states - 1
    found = {(0, stop) for stop in range(1, states)} | {(start, last) for start in range(last)}
    return sorted(found | {(start, start + 1) for start in range(last)})
