"""A sample of the map tasks, computed once more from every row, to catch row lineage that does not say the truth."""

import hashlib
from typing import Final

from icefloe.audit.sums import AuditError, Sums
from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.fast_ways import FastWay
from icefloe.batch.map.carryover import CarryOver

_WHOLE: Final = 1 << 64


class SampleDiffersError(AuditError):
    """A map task that took a fast way gives other changes than one that compares every row."""

    map_id: int


def is_sampled(share: float, folder_url: str, map_id: int) -> bool:
    """True for a share of all map tasks, and for the same ones at each try.

    >>> sum(is_sampled(0.25, "memory:///batch", map_id) for map_id in range(1_000))
    256
    """
    digest = hashlib.sha256(f"{folder_url}/{map_id}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * _WHOLE


def verify_task(inputs: MapInputs, map_id: int, found: Sums, *, memory_bytes: int) -> None:
    """If a map task is in the sample, reads its files again, compares every row, and adds up the changes.

    Args:
        inputs: of the map task.
        map_id: of the map task.
        found: sums of the rows that it hands on.
        memory_bytes: memory to compare rows in.

    Raises:
        SampleDiffersError: the sums differ.
    """
    folder = inputs.folder
    if not is_sampled(folder.verify_sample, folder.store.url, map_id):
        return
    carryover = CarryOver(inputs.file_effects(map_id), inputs.row_reader(), memory_bytes=memory_bytes, fast_ways=())
    expected = Sums()
    for rows in carryover.changed_rows():
        shuffled = folder.shuffled_form.to_shuffle(rows)
        expected.add_rows(shuffled.row_hashes, rows.change_ordinals, rows.weights)
    what = f"map task {map_id} of batch {folder.plan.batch_number}"
    try:
        found.require(expected, what=what)
    except AuditError as cause:
        plan, advice = folder.plan, "report this as a bug"
        if FastWay.LINEAGE in folder.fast_ways:
            advice = (
                f"a writer changed rows and kept their sequence numbers. Set row_lineage: off, run `icefloe abandon "
                f"{plan.pipeline}`, and compare earlier batches with `icefloe verify {plan.pipeline}`"
            )
        raise SampleDiffersError(
            f"{what} found other changes in {plan.table} when it compared every row (verify_sample), so nothing was "
            f"delivered: {advice}",
            map_id=map_id, change_ordinal=cause.change_ordinal,
        ) from cause  # fmt: skip
