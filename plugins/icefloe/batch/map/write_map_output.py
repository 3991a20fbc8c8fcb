"""Phase one of the shuffle: a map task, from data files to a committed map output."""

import logging
import time
from collections.abc import Mapping

from icefloe.batch.context.batch_folder import BatchFolder, MapInputs
from icefloe.batch.map.carryover import CarryOver
from icefloe.batch.rows.file_effects import Sums
from icefloe.shuffle.committed_output import MapOutputRecord
from icefloe.shuffle.map_output import MapOutputWriter, new_attempt

__all__ = ["write_map_output"]

logger = logging.getLogger(__name__)


def write_map_output(
    inputs: MapInputs, map_id: int, *, attempt: str | None = None, generation: int = 0
) -> MapOutputRecord:
    """Writes the map output of one task, and returns the commit record that counts.

    Args:
        attempt: name of this attempt in the record; None: a new name.
        generation: generation to commit; the caller found no record of it.
    """
    folder, plan = inputs.folder, inputs.folder.plan
    started = time.monotonic()
    # Half for the rows that are compared, half for the writer: both hold rows at once.
    memory_bytes = folder.memory_bytes // 2
    reader = inputs.row_reader()
    carryover = CarryOver(inputs.file_effects(map_id), reader, memory_bytes=memory_bytes)
    sums = Sums()
    with MapOutputWriter(
        folder.store,
        map_id=map_id,
        generation=generation,
        attempt=attempt or new_attempt(),
        schema=folder.shape.shuffled_schema,
        num_partitions=plan.num_partitions,
        hash_partitions=plan.hash_partitions,
        memory_bytes=memory_bytes,
        place=folder.place_for(generation),
    ) as writer:
        rows_handed_on = _hand_on(folder, carryover, writer, sums)
        tally = carryover.tally
        # Before the commit: from its record on, the rows count.
        tally.require(sums.signed_counts(), what=f"map task {map_id} of batch {plan.batch_number}")
        record = writer.commit(
            removed_rows_read=tally.removed_rows,
            added_rows_read=tally.added_rows,
            carried_over_rows=tally.removed_rows + tally.added_rows - rows_handed_on,
            bytes_read=plan.map_task_bytes[map_id],
            bytes_decoded=reader.decoded_bytes,
            seconds=time.monotonic() - started,
        )
    # The record may be another attempt's. The same plan must have given it the same rows.
    Sums(record.ordinals).require(sums, what=f"the map output {map_id} of batch {plan.batch_number}")
    logger.info(
        "map task %d: read %d rows, handed on %d; %s",
        map_id,
        tally.rows_read,
        rows_handed_on,
        _ways_text(carryover.files_by_way),
    )
    return record


def _ways_text(files_by_way: Mapping[str, int]) -> str:
    """Files compared by each way.

    >>> _ways_text({"identical": 4, "aligned": 0, "hashed": 1})
    'files compared: 4 identical, 1 hashed'
    """
    found = ", ".join(f"{files} {way}" for way, files in files_by_way.items() if files)
    return f"files compared: {found or 'none'}"


def _hand_on(folder: BatchFolder, carryover: CarryOver, writer: MapOutputWriter, sums: Sums) -> int:
    """Routes every changed row by its identity; returns their number."""
    handed_on = 0
    for rows in carryover.changed_rows():
        batch, row_hashes, identity_hashes = folder.shape.to_shuffle(rows)
        writer.write(
            batch,
            identity_hashes=identity_hashes,
            change_ordinals=rows.change_ordinals,
            weights=rows.weights,
            row_hashes=row_hashes,
        )
        sums.add_rows(row_hashes, rows.change_ordinals, rows.weights)
        handed_on += batch.num_rows
    return handed_on
