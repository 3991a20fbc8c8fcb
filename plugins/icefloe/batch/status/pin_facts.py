"""The snapshots that a pipeline with ``pin: true`` keeps from expiring."""

from icefloe.batch.open.pin import pinned_refs
from icefloe.batch.status.pipeline_status import Pins
from icefloe.checkpoint.view import CheckpointView
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.pins import PinNames
from icefloe.iceberg.table import Table
from icefloe.units import time_of_ms

__all__ = ["pins_of"]


def pins_of(table: Table, pipeline: str, view: CheckpointView) -> Pins | None:
    """The pins of a pipeline as its table has them; None if there are none.

    Args:
        table: its table.
        pipeline: its name.
        view: a look at its checkpoint.
    """
    found = pinned_refs(table, pipeline, view)
    if found is None:
        return None
    snapshots = History.of(table).snapshots
    times = [snapshots[each].timestamp_ms for each in found.tagged.values() if each in snapshots]
    return Pins(
        branch=PinNames.of(pipeline, str(view.checkpoint_id)).branch,
        snapshots=len(found.tagged),
        up_to_snapshot_id=found.branch_head_id,
        oldest_at=time_of_ms(min(times)) if times else None,
    )
