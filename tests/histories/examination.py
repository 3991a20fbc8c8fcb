"""The questions about a table after its history: ranges, identities, settings, chosen by a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from histories.bench import Bench
from histories.check import Question, check_question
from histories.cuts import check_cuts, random_cuts
from histories.selection import EVERYTHING, random_selection
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.errors import NotBuiltError

__all__ = ["Examination", "examine"]

Range = tuple[int | None, int]


@dataclass(slots=True)
class Examination:
    """The result, if nothing was wrong."""

    questions: int = 0
    changes: int = 0
    not_built: Counter[str] = field(default_factory=Counter)


def examine(bench: Bench, random: Random, *, thorough: bool = False) -> Examination:
    """Ask about the table.

    Args:
        bench: after its history.
        random: chooses what is asked.
        thorough: every range, instead of the whole one and a few others.

    Raises:
        WrongChangesError: what is wrong.
    """
    result = Examination()
    for question in _questions(bench, random, thorough):
        result.questions += 1
        try:
            with _settings(random):
                result.changes += check_question(bench, question)
        except NotBuiltError as refusal:
            result.not_built[str(refusal)] += 1
    bounds = random_cuts(bench, random)
    if len(bounds) > 2:
        result.questions += 1
        with _settings(random):
            result.changes += check_cuts(bench, bounds, _identity(random, bench.trace.schemas[bounds[-1] or 0]))
    return result


def _questions(bench: Bench, random: Random, thorough: bool) -> Iterator[Question]:
    head = bench.head()
    if head is None:
        return
    has_row_ids = bench.table().metadata.format_version >= 3
    for after, up_to in _ranges(bench, random, head, thorough):
        schema = bench.trace.schemas[up_to]
        selection = random_selection(random, schema) if random.random() < 0.25 else EVERYTHING
        identity = _identity(random, schema)
        is_shown = {*identity} <= {each.name for each in selection.schema(schema).fields}
        yield Question(
            after=after,
            up_to=up_to,
            identifier_columns=identity,
            net=random.random() < 0.3 and is_shown,
            split=random.random() < 0.15,
            row_ids=has_row_ids,
            # The log of a branch loses its moves with the snapshots that expire.
            only_sum=bench.applied["expire"] > 0 and after is not None and after not in bench.trace.lineage(up_to),
            selection=selection,
        )


def _ranges(bench: Bench, random: Random, head: int, thorough: bool) -> list[Range]:
    table = bench.table()
    lineage = [each for each in bench.trace.lineage(head) if table.snapshot_by_id(each)]
    is_whole = bench.trace.snapshots[lineage[0]].parent_snapshot_id is None
    starts: list[int | None] = [None, *lineage] if is_whole else list(lineage)
    ranges = [(after, up_to) for n, after in enumerate(starts) for up_to in lineage[n if is_whole else n + 1 :]]
    # Without a common ancestor that is still there nobody can tell how the branch moved.
    moved = [
        (each, head)
        for each in bench.trace.left_behind()
        if table.snapshot_by_id(each) and (is_whole or set(lineage) & set(bench.trace.lineage(each)))
    ]
    if thorough:
        return [*ranges, *moved]
    steps = [(start, end) for start, end in pairwise(starts) if end is not None]
    return [(starts[0], head), *_some(random, steps, 1), *_some(random, ranges, 2), *_some(random, moved, 1)]


def _identity(random: Random, schema: Schema) -> tuple[str, ...]:
    names = [each.name for each in schema.fields if isinstance(each.field_type, PrimitiveType)]
    return tuple(random.sample(names, min(len(names), random.choice((0, 0, 1, 1, 1, 2)))))


def _some(random: Random, items: list[Range], count: int) -> list[Range]:
    return random.sample(items, min(len(items), count))


@contextmanager
def _settings(random: Random) -> Iterator[None]:
    """Mostly sizes so small that everything is cut to pieces."""
    sizes: dict[str, Any] = {}
    memory_bytes = 2**30
    if random.random() < 0.6:
        sizes = {
            "partitions": random.choice(("auto", 1, 2, 3, 7)),
            "target_size_bytes": random.choice((1, 100, 2**26)),
            "map_task_bytes": random.choice((1, 3000, 2**28)),
        }
        memory_bytes = random.choice((2000, 30_000, 2**30))
    with (
        patch("icefloe.batch.changelog_scan.BatchSpec", partial(BatchSpec, **sizes)),
        patch("icefloe.batch.changelog_scan.MEMORY_BYTES", memory_bytes),
    ):
        yield
