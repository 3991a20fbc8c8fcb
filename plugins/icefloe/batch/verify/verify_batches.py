"""Verify: the delivered changes, replayed on the start state, must give the end state, row for row."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.context.end_batch import missing_numbers
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.recorded_pipeline import refuse_other_meaning
from icefloe.batch.verify.table_state import (
    Replay,
    SchemaRun,
    TableState,
    committed_batches,
    delivered_shape,
    schema_runs,
    since_last_start,
)
from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import History
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest, Part
from icefloe.storage.store import KeyMissingError

__all__ = ["verify_batches"]

logger = logging.getLogger(__name__)

_ROWS_PER_SLICE: Final = 1 << 24
_MAX_SLICES: Final = 256
_TYPES: Final = pa.array([kind.name for kind in ChangeType])
_WEIGHTS: Final = np.array([*(kind.weight for kind in ChangeType), 0], np.int64)
"""Number of rows that each change adds to the table, by its place in ``_TYPES``; -1: a change of no known type."""


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


class SchemaRunReplay:
    def __init__(self, session: PipelineSession, sink: ChangeFiles, schema_run: SchemaRun) -> None:
        self._session = session
        self._sink = sink
        self._schema_run = schema_run
        self._shape = delivered_shape(session, schema_run.schema, Identity(policy="none"))
        self._schema = ChangeColumns.schema(self._shape.delivered.arrow, with_batch=True)
        self._sentences: dict[str, None] = {}
        """In order, each once, because every slice of the hashes finds most of them again."""

    def run(self, rows_per_slice: int) -> VerifyReport:
        """Findings from hashes of so many rows at a time."""
        schema_run = self._schema_run
        start = TableState.at(self._session, self._shape, schema_run.after_snapshot_id)
        end = TableState.at(self._session, self._shape, schema_run.up_to_snapshot_id, schema_run.load_part)
        manifests = [self._manifest(batch.batch_number) for batch in schema_run.batches]
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
                for part in manifest.parts:
                    self._add_part(manifest, part, replay)
            end.add_to(replay, sign=-1)
            differing_rows += replay.differing_rows()
        logger.info("verified batches up to %d: %d rows differ", schema_run.batches[-1].batch_number, differing_rows)
        return VerifyReport(
            batches=len(schema_run.batches),
            changes=changes,
            rows=end.record_count,
            differing_rows=differing_rows,
            sentences=(*self._sentences, *self._difference(differing_rows)),
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

    def _difference(self, differing_rows: int) -> Sequence[str]:
        if not differing_rows:
            return ()
        schema_run, pipeline = self._schema_run, self._session.pipeline
        first, last = schema_run.batches[0].batch_number, schema_run.batches[-1].batch_number
        start = "an empty table" if schema_run.after_snapshot_id is None else f"snapshot {schema_run.after_snapshot_id}"
        sentence = (
            f"batches {first} to {last} of {pipeline.name} do not lead from {start} to snapshot "
            f"{schema_run.up_to_snapshot_id} of {pipeline.table}: {differing_rows} rows are missing or too many"
        )
        return (sentence,)

    def _add_part(self, manifest: Manifest, part: Part, replay: Replay) -> None:
        """Reports a part that is gone, or differs from its manifest."""
        batch_number, names, key = manifest.batch.batch_number, self._shape.delivered.arrow.names, self._shape.hash_key
        what = f"part {part.names[0]} of batch {batch_number} in {self._session.pipeline.sink.path}"
        rows = hash_sum = 0
        try:
            for batch in self._sink.read_part(batch_number, part):
                self._require_schema(batch.schema, batch_number)
                types = pc.index_in(batch.column(ChangeColumns.TYPE), value_set=_TYPES).fill_null(-1)
                weights = _WEIGHTS[types.to_numpy(zero_copy_only=False)]
                # A second witness: sums are made under the key of the batch, states are compared under another.
                replay.add(RowHashes.of_batch(batch, names, key=key), weights)
                rows += batch.num_rows
                summed = RowHashes.of_batch(batch, names, key=manifest.batch.hash_key)
                hash_sum = (hash_sum + summed.signed_sum(weights)) % (1 << 128)
        except KeyMissingError:
            self._say(f"{what} is gone: restore it")
            return
        if (rows, hash_sum) != (part.rows, part.hash_sum):
            self._say(
                f"{what} differs from its manifest: {rows} rows instead of {part.rows}, or other values; restore it"
            )

    def _require_schema(self, found: pa.Schema, batch_number: int) -> None:
        if found.names != self._schema.names:
            raise TerminalError(
                f"batch {batch_number} of {self._session.pipeline.name} has other columns than later batches, and the "
                "snapshot with its schema has expired: it can no longer be verified",
                batch_number=batch_number,
            )


def verify_batches(session: PipelineSession, *, rows_per_slice: int = _ROWS_PER_SLICE) -> VerifyReport:
    """Replays a pipeline's changes since its last load; reads sink and table, changes nothing.

    Args:
        rows_per_slice: rows whose hashes are held at once; a larger table is read several times.
    """
    sink = session.folder_of_changes
    recorded = session.checkpoint.look().pipeline
    if recorded is not None:
        refuse_other_meaning(session, recorded)
    batches = since_last_start(committed_batches(session))
    for each in batches:
        History.of(session.table).require_same(each.end.snapshot)
    with session.pipeline.with_lines():
        replays = [SchemaRunReplay(session, sink, schema_run) for schema_run in schema_runs(session.table, batches)]
    found = [replay.run(rows_per_slice) for replay in replays]
    return VerifyReport(
        batches=sum(each.batches for each in found),
        changes=sum(each.changes for each in found),
        rows=found[-1].rows if found else 0,
        differing_rows=sum(each.differing_rows for each in found),
        sentences=(
            *(sentence for each in found for sentence in each.sentences),
            *missing_manifests(session),
        ),
    )
