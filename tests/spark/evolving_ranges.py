"""Every range of a history whose schema changes, held to what Iceberg's Java reader makes of the states at its ends."""

from collections.abc import Sequence

from spark.java_states import JavaStates
from spark.range_check import changes_of, check_range
from spark.spark_table import SparkTable

__all__ = ["check_evolving_ranges"]


def check_evolving_ranges(table: SparkTable, *, identifier_columns: Sequence[str] = ()) -> None:
    """Each step of each range is the difference of its states, read in the schema of the range's last snapshot.

    Args:
        table: whose commits are one snapshot each, none of them a replace.
        identifier_columns: top-level columns that every schema has.
    """
    java, lineage = JavaStates(table), [None, *table.snapshot_ids()]
    for stop, up_to in enumerate(lineage[1:], start=2):
        states = {snapshot_id: java.rows_at(snapshot_id, schema_of=up_to) for snapshot_id in lineage[:stop]}
        for start, after in enumerate(lineage[: stop - 1]):
            found = changes_of(table, after, up_to, identifier_columns=list(identifier_columns))
            check_range(found, states, [after, *lineage[start + 1 : stop]], identifier_columns)
