"""The insert-only route: a map task, from data files straight to a part."""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from icefloe.batch.context.batch_folder import MapInputs
from icefloe.batch.map.carryover import CarryOver
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.staged_changes import StagedChanges
from icefloe.changes.columns import ChangeType
from icefloe.shuffle.committed_output import MapOutputRecord
from icefloe.shuffle.map_output import new_attempt
from icefloe.sinks.change_files import ChangeFiles

__all__ = ["inserted_rows", "write_part"]


def write_part(
    inputs: MapInputs, sink: ChangeFiles, map_id: int, *, attempt: str | None = None, generation: int = 0
) -> MapOutputRecord:
    """Delivers every row of one map task's files as INSERT, and returns the commit record that counts.

    Args:
        attempt: name of this attempt in the record; None: a new name.
        generation: generation to commit; the caller found no record of it.
    """
    folder = inputs.folder
    started = time.monotonic()
    reader = inputs.row_reader()
    staged = StagedChanges(folder)
    message = staged.write(sink, map_id, inserted_rows(inputs, map_id, staged, reader=reader))
    return folder.map_outputs.commit(
        MapOutputRecord(
            map_id=map_id,
            generation=generation,
            attempt=attempt or new_attempt(),
            rows=message.rows,
            ordinals=staged.sums.to_documents(),
            added_rows_read=message.rows,
            bytes_read=folder.plan.map_task_bytes[map_id],
            bytes_decoded=reader.decoded_bytes,
            seconds=time.monotonic() - started,
            part=message.for_record(),
        )
    )


def inserted_rows(
    inputs: MapInputs, map_id: int, staged: StagedChanges, *, reader: TableRowReader | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a map task, file by file."""
    carryover = CarryOver(
        inputs.file_effects(map_id), reader or inputs.row_reader(), memory_bytes=inputs.folder.memory_bytes
    )
    for rows in carryover.changed_rows():
        delivered, hashes = inputs.folder.shape.to_deliver(rows)
        # A file that the table lists twice has each of its rows twice.
        picks = np.repeat(np.arange(rows.batch.num_rows), rows.weights)
        types = np.full(len(picks), ChangeType.INSERT, np.uint8)
        yield from staged.batches(delivered, hashes, picks, types, rows.change_ordinals)
    carryover.tally.require(
        staged.sums.signed_counts(), what=f"task {map_id} of batch {inputs.folder.plan.batch_number}"
    )
