"""One step gives the same changes in whatever batch it is read: a range read whole, and read in pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa
from pyiceberg.schema import Schema

from histories.bench import Bench
from histories.check import WrongChangesError
from icefloe.api import read_changes
from support.spark.row_counts import Row, freeze

__all__ = ["changes_by_step", "check_cuts", "random_cuts"]

Bound = int | None
_META = 4


def check_cuts(bench: Bench, bounds: Sequence[Bound], identifier_columns: Sequence[str] = ()) -> int:
    """Read the range between the first and the last bound whole and cut at all of them; how many changes there were.

    Raises:
        WrongChangesError: a step has other changes in a piece than in the whole range.
    """
    table = bench.table()

    def read(after: Bound, up_to: Bound) -> pa.Table:
        columns = list(identifier_columns) or None
        return read_changes(table, after, up_to, identifier_columns=columns).read_all()

    whole = changes_by_step(read(bounds[0], bounds[-1]))
    cut = {step: changes for after, up_to in pairwise(bounds) for step, changes in changes_by_step(read(after, up_to))}
    for step, changes in whole:
        if changes != cut.get(step):
            found = dict(changes - cut.get(step, Counter())), dict(cut.get(step, Counter()) - changes)
            raise WrongChangesError(f"step {step} cut at {bounds} has other changes: only in the whole, cut: {found}")
    if len(cut) != len(whole):
        raise WrongChangesError(f"cut at {bounds} there are {len(cut)} steps with changes, not {len(whole)}")
    return sum(changes.total() for _, changes in whole)


def random_cuts(bench: Bench, random: Random) -> list[Bound]:
    """Ends of steps to cut the history of main at, where one schema delivers all of them; fewer than 3: no cut."""
    head = bench.head()
    if head is None:
        return []
    table, trace = bench.table(), bench.trace
    lineage = [each for each in trace.lineage(head) if table.snapshot_by_id(each)]
    is_whole = trace.snapshots[lineage[0]].parent_snapshot_id is None
    start = None if is_whole else lineage[0]
    ends = [step.end for step in trace.steps(start, head) or []]
    bounds: list[Bound] = [start, *ends]
    last = trace.schemas[head]
    first = next((n for n in range(len(ends), 0, -1) if not _is_alike(trace.schemas[ends[n - 1]], last)), 0)
    inner = bounds[first + 1 : -1]
    return [bounds[first], *(bound for bound in inner if random.random() < 0.6), bounds[-1]] if inner else []


def changes_by_step(found: pa.Table) -> list[tuple[int, Counter[Row]]]:
    """By snapshot id, in the order of the steps: each change, and an update as a pair of its images."""
    by_step: dict[tuple[int, int], Counter[Row]] = {}
    columns = [column.to_pylist() for column in found.columns]
    before: Row | None = None
    for change_type, ordinal, snapshot_id, timestamp, *values in zip(*columns, strict=True):
        row: Row = tuple(freeze(value) for value in values)
        if change_type == "UPDATE_BEFORE":
            before = row
            continue
        images = (before, row) if change_type == "UPDATE_AFTER" else (row,)
        by_step.setdefault((ordinal, snapshot_id), Counter())[change_type, timestamp, *images] += 1
    return [(snapshot_id, changes) for (_, snapshot_id), changes in sorted(by_step.items(), key=lambda item: item[0])]


def _is_alike(one: Schema, other: Schema) -> bool:
    return one.fields == other.fields and set(one.identifier_field_ids) == set(other.identifier_field_ids)
