"""The work that a sensor finds."""

from icefloe.batch.open.find_work import find_work
from support.pipelines.workshop import Workshop


def work(workshop: Workshop) -> tuple[bool, bool]:
    """True for an open batch, and true for a new snapshot."""
    found = find_work(workshop.session())
    return found.has_open_batch, found.has_new_snapshot
