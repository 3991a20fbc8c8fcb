"""Verify: the delivered changes, replayed on the start state, must give the end state, row for row."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from icefloe.batch.context.end_batch import missing_numbers
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.recorded_pipeline import refuse_other_meaning
from icefloe.batch.verify.sink_rows import WrittenColumns
from icefloe.batch.verify.table_state import Replay, TableState, committed_batches, delivered_shape, since_last_load
from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.sinks.manifest import Manifest, Part
from icefloe.storage.store import KeyMissingError

__all__ = ["verify_batches"]

logger = logging.getLogger(__name__)

_ROWS_PER_SLICE: Final = 1 << 24
_MAX_SLICES: Final = 256
_WEIGHTS: Final = np.array([*(kind.weight for kind in ChangeType), 0], np.int64)
"""Number of rows that each change adds to the table, by its type; the last is of a change of no known type."""


def missing_manifests(session: PipelineSession) -> tuple[str, ...]:
    """Sentences for the first batches without a manifest. Those before the first manifest may be deleted."""
    folder, name = session.counted_folder, session.pipeline.name
    # One that was listed late may have come since.
    missing = [number for number in missing_numbers(folder) if folder is not None and folder.whole(number) is None]
    if not missing:
        return ()
    first = missing[0]
    count = next((index for index, number in enumerate(missing) if number != first + index), len(missing))
    numbers = str(first) if count == 1 else f"{first}-{first + count - 1}"
    sentence = (
        f"batch {numbers} of {name} has no manifest in {session.pipeline.sink.path}, and later batches have one: "
        f"readers stop there; icefloe reset {name} writes it, and the next run loads the table again"
    )
    return (sentence,)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The findings of a replay."""

    batches: int  # since the last load, included; one that only placed the cursor does not count
    changes: int  # by the manifests
    rows: int
    differing_rows: int
    sentences: tuple[str, ...]  # one for each range that differs, and each part that differs from its manifest

    @property
    def is_equal(self) -> bool:
        """True if the changes are exactly the difference of the states."""
        return not self.sentences


class ChangesReplay:
    """Some batches in a row, whose changes are read in the columns that the table has after them."""

    def __init__(self, session: PipelineSession, batches: Sequence[CommitRecord]) -> None:
        first, last = batches[0], batches[-1]
        schema = TableSchema.at(session.table.metadata, last.end.snapshot_id, after_snapshot_id=last.after_snapshot_id)
        self._session, self._batches, self._sink = session, batches, session.folder_of_changes
        self._shape = delivered_shape(session, schema, Identity(policy="none"))
        self._written = WrittenColumns(session, self._shape.delivered, first_batch=first.batch_number)
        self._sentences: dict[str, None] = {}
        """In order, each once, because every slice of the hashes finds most of them again."""

    def run(self, rows_per_slice: int) -> VerifyReport:
        """Findings from hashes of so many rows at a time."""
        first, last = self._batches[0], self._batches[-1]
        # If the load goes on in the next batch, the end is the delivered part of its state.
        part = last.end.load_part
        start = TableState.at(self._session, self._shape, first.after_snapshot_id)
        end = TableState.at(
            self._session, self._shape, last.end.snapshot_id, None if part is None else replace(part, first_file=0)
        )
        manifests = [self._manifest(batch.batch_number) for batch in self._batches]
        changes = sum(manifest.batch.rows for manifest in manifests)
        # What is in one state and not in the other is among the changes. So this is about the number of different
        # hashes.
        rows = max(start.record_count, end.record_count) + changes
        differing_rows = 0
        for part_of_hashes in HashSlice.slices(min(_MAX_SLICES, -(-rows // rows_per_slice))):
            # Rows of the start and the changes are added, rows of the end subtracted. If all is well, every row comes
            # to 0:
            #   row        start   changes   end   sum
            #   kept       +1                -1     0
            #   old image  +1      -1               0
            #   new image          +1        -1     0
            #   lost                         -1    -1      it counts as differing
            replay = Replay(part_of_hashes)
            start.add_to(replay, sign=1)
            for manifest in manifests:
                for each in manifest.parts:
                    self._add_part(manifest, each, replay)
            end.add_to(replay, sign=-1)
            differing_rows += replay.differing_rows()
        if differing_rows:
            start_text = "an empty table" if first.after_snapshot_id is None else f"snapshot {first.after_snapshot_id}"
            pipeline = self._session.pipeline
            self._say(
                f"batches {first.batch_number} to {last.batch_number} of {pipeline.name} do not lead from {start_text} "
                f"to snapshot {last.end.snapshot_id} of {pipeline.table}: {differing_rows} rows are missing or too "
                "many"
            )
        logger.info("verified batches up to %d: %d rows differ", last.batch_number, differing_rows)
        return VerifyReport(
            batches=len(self._batches),
            changes=changes,
            rows=end.record_count,
            differing_rows=differing_rows,
            sentences=tuple(self._sentences),
        )

    def _say(self, sentence: str) -> None:
        self._sentences[sentence] = None

    def _manifest(self, batch_number: int) -> Manifest:
        try:
            return self._sink.manifest(batch_number)
        except KeyMissingError as cause:
            raise TerminalError(
                f"batch {batch_number} of {self._session.pipeline.name} is committed, but its _manifest.json in "
                f"{self._session.pipeline.sink.path} is gone: restore it",
                batch_number=batch_number,
            ) from cause

    def _add_part(self, manifest: Manifest, part: Part, replay: Replay) -> None:
        """Reports a part that is gone, or differs from its manifest."""
        batch_number, names, key = manifest.batch.batch_number, self._shape.delivered.arrow.names, self._shape.hash_key
        what = f"part {part.names[0]} of batch {batch_number} in {self._session.pipeline.sink.path}"
        rows = hash_sum = 0
        try:
            for batch in self._sink.read_part(batch_number, part):
                weights = _WEIGHTS[ChangeColumns.types(batch)]
                # A second witness: sums are made under the key of the batch, states are compared under another.
                present = self._written.present(batch, batch_number)
                replay.add(RowHashes.of_batch(present, names, key=key), weights)
                rows += batch.num_rows
                written = [name for name in batch.schema.names if name not in ChangeColumns.ALL]
                summed = RowHashes.of_batch(batch, written, key=manifest.batch.hash_key)
                hash_sum = (hash_sum + summed.signed_sum(weights)) % (1 << 128)
        except KeyMissingError:
            self._say(f"{what} is gone: restore it")
            return
        if (rows, hash_sum) != (part.rows, part.hash_sum):
            self._say(
                f"{what} differs from its manifest: {rows} rows instead of {part.rows}, or other values; restore it"
            )


def verify_batches(session: PipelineSession, *, rows_per_slice: int = _ROWS_PER_SLICE) -> VerifyReport:
    """Replays a pipeline's changes since its last load; reads sink and table, changes nothing.

    Args:
        rows_per_slice: rows whose hashes are held at once; a larger table is read several times.
    """
    recorded = session.checkpoint.look().pipeline
    if recorded is not None:
        refuse_other_meaning(session, recorded)
    batches = since_last_load(committed_batches(session), or_move=True)
    # These may have been delivered after the table was loaded.
    session = session.with_fresh_table()
    for each in batches:
        session.table.history.require_same(each.end.snapshot)
    if batches and batches[0].steps == 0 and batches[0].after_snapshot_id is None:
        batches = batches[1:]  # it only placed the cursor
    found = VerifyReport(batches=0, changes=0, rows=0, differing_rows=0, sentences=())
    if batches:
        with session.pipeline.with_lines():
            replay = ChangesReplay(session, batches)
        found = replay.run(rows_per_slice)
    return replace(found, sentences=(*found.sentences, *missing_manifests(session)))
