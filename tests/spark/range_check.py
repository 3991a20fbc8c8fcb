"""Ranges of a history, held to the states that Iceberg reads at their ends."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from histories.check import check_steps
from histories.trace import ExpectedStep
from icefloe.api import read_changes
from support.spark.java_rows import JavaStates
from support.spark.row_counts import Row
from support.spark.spark_table import SparkTable

__all__ = ["changes_of", "check_evolving_ranges", "check_range", "check_ranges", "last_changes", "types_of"]

State = Callable[[int | None, int], Counter[Row]]


def changes_of(table: SparkTable, after: int | None = None, up_to: int | None = None, **options: Any) -> pa.Table:
    """The changes of a range as `read_changes` gives them."""
    return read_changes(table.load(), after_snapshot_id=after, up_to_snapshot_id=up_to, **options).read_all()


def last_changes(table: SparkTable, **options: Any) -> pa.Table:
    """The changes of the last commit."""
    return changes_of(table, table.snapshot_ids()[-2], **options)


def types_of(changes: pa.Table) -> dict[str, int]:
    """The number of changes of each type."""
    return dict(Counter(changes["_change_type"].to_pylist()))


def check_ranges(
    table: SparkTable,
    *,
    identifier_columns: Sequence[str] = ("id",),
    state: State | None = None,
    commits: Iterable[Sequence[int]] = (),
    **options: Any,
) -> None:
    """In each range of the current lineage each step is the difference of its states, and its pairs are by identity.

    Every snapshot is once the start and once the end of a range.

    Args:
        table: at least one snapshot.
        identifier_columns: top-level columns.
        state: the rows at a snapshot by the schema of another; default: as Iceberg's generic reader has them, which
            must agree with Spark's time travel at the head.
        commits: snapshots that one commit published together; the others were published alone.
        options: of `read_changes`.
    """
    lineage = table.snapshot_ids()
    read = cache(state or _generic_reader(table, lineage[-1]))
    for after, up_to, identity in _ranges(lineage, identifier_columns):
        ends = [after, *_steps(table, lineage, after, up_to, commits)]
        states = {each: read(each, up_to) for each in ends}
        found = changes_of(table, after, up_to, identifier_columns=list(identity), **options)
        check_range(found, states, ends, identity)


def check_evolving_ranges(table: SparkTable, *, identifier_columns: Sequence[str] = ()) -> None:
    """The same for tables of any type: Spark, which knows no times and no nanoseconds, is not asked."""
    read = JavaStates(table).rows_at
    state = cache(lambda snapshot_id, schema_of: read(snapshot_id, schema_of=schema_of))
    check_ranges(table, identifier_columns=identifier_columns, state=state)


def check_range(
    found: pa.Table, states: Mapping[int | None, Counter[Row]], ends: Sequence[int | None], identity: Sequence[str]
) -> None:
    """The changes of consecutive steps, which ``ends`` bound: the first start, then the end of each."""
    steps = [
        ExpectedStep(start=start, end=end, commit_snapshot_ids=frozenset([end]), timestamp_ms=None)
        for start, end in pairwise(ends)
        if end is not None
    ]
    check_steps(found, steps, states.__getitem__, identity)


def _generic_reader(table: SparkTable, head: int) -> State:
    java, metadata = JavaStates(table), table.load().metadata
    schema_ids = {snapshot.snapshot_id: snapshot.schema_id for snapshot in metadata.snapshots}
    first_of_schema = {schema_id: snapshot_id for snapshot_id, schema_id in reversed(schema_ids.items())}
    read = cache(lambda snapshot_id, schema_of: java.rows_at(snapshot_id, schema_of=schema_of))
    assert read(head, first_of_schema[schema_ids[head]]) == table.rows_at(head)
    return lambda snapshot_id, up_to: read(snapshot_id, first_of_schema[schema_ids[up_to]])


def _ranges(lineage: Sequence[int], identity: Sequence[str]) -> Iterator[tuple[int | None, int, Sequence[str]]]:
    """The whole with the identity and without, each snapshot alone, and what lies between the ends."""
    yield from ((None, lineage[-1], columns) for columns in (identity, []))
    yield from ((after, up_to, identity) for after, up_to in pairwise(lineage))
    if len(lineage) > 3:
        yield lineage[1], lineage[-2], []


def _steps(
    table: SparkTable, lineage: Sequence[int], after: int | None, up_to: int, commits: Iterable[Sequence[int]]
) -> list[int]:
    """The last snapshot of each step of the range."""
    last_of = {snapshot_id: commit[-1] for commit in commits for snapshot_id in commit}
    metadata = table.load().metadata
    members: dict[int, int] = {}
    start = 0 if after is None else lineage.index(after) + 1
    for snapshot_id in lineage[start : lineage.index(up_to) + 1]:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        assert snapshot.summary is not None
        if snapshot.summary.operation != Operation.REPLACE:
            members[last_of.get(snapshot_id, snapshot_id)] = snapshot_id
    return list(members.values())
