"""The output of a proven batch: all of it, or what ``changes: upsert`` and ``append_only`` leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.run_settings import RunSettings
from icefloe.changes.columns import CHANGE_ORDINAL, CHANGE_TYPE, ChangeType, removed_rows
from icefloe.pipeline.option_values import OutputOption
from icefloe.sinks.batch_to_deliver import StagedPart
from icefloe.sinks.manifest import BatchSummary

__all__ = ["OutputMode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMode:
    """The part of a batch that a sink is given.

    Attributes:
        changes: the pipeline's ``changes``.
        skipped: change ordinals of the steps that are left out as a whole.
    """

    changes: OutputOption = "each"
    skipped: tuple[int, ...] = ()

    @classmethod
    def of(cls, batch: BatchSummary, parts: Sequence[StagedPart], settings: RunSettings) -> Self:
        """The output of a batch.

        Args:
            batch: summary of the whole batch.
            parts: its parts, which are looked through if steps are to be left out.
            settings: settings of the run.
        """
        if settings.changes != "append_only" or not removed_rows(batch.counts):
            return cls(changes=settings.changes)
        return cls(changes=settings.changes, skipped=tuple(sorted(_removing_ordinals(parts))))

    def reduced(self, part: StagedPart) -> StagedPart:
        """A part with the rows that the sink is given; its numbers stay those of the staged part."""
        if self.changes != "upsert" and not self.skipped:
            return part
        return replace(part, read=partial(self._rows, part))

    def counts(self, batch: BatchSummary) -> dict[str, int]:
        """Changes by type that the sink is given; steps that are left out still count."""
        left_out = ChangeType.UPDATE_BEFORE.name.lower() if self.changes == "upsert" else None
        return {name: number for name, number in batch.counts.items() if name != left_out}

    def _rows(self, part: StagedPart) -> Iterator[pa.RecordBatch]:
        for rows in part.read():
            kept = rows
            if self.changes == "upsert":
                kept = kept.filter(pc.not_equal(kept.column(CHANGE_TYPE), ChangeType.UPDATE_BEFORE.name))
            if self.skipped:
                ordinals = pa.array(self.skipped, pa.int32())
                kept = kept.filter(pc.invert(pc.is_in(kept.column(CHANGE_ORDINAL), value_set=ordinals)))
            if kept.num_rows:
                yield kept


def _removing_ordinals(parts: Sequence[StagedPart]) -> set[int]:
    """The steps that remove or update a row."""
    found: set[int] = set()
    for part in parts:
        for rows in part.read():
            is_removed = pc.not_equal(rows.column(CHANGE_TYPE), ChangeType.INSERT.name)
            found.update(pc.unique(rows.column(CHANGE_ORDINAL).filter(is_removed)).to_pylist())
    return found
