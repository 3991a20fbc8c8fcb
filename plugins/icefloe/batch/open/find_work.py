"""A look for work, without a plan, for the sensor."""

from dataclasses import dataclass

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_range import is_emptied
from icefloe.batch.open.recorded_pipeline import has_other_meaning
from icefloe.iceberg.history.history import History

__all__ = ["Work", "find_work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work that a pipeline has to do."""

    has_open_batch: bool
    has_new_snapshot: bool
    head_snapshot_id: int | None

    @property
    def is_due(self) -> bool:
        """True if a batch can be opened or resumed."""
        return self.has_open_batch or self.has_new_snapshot


def find_work(session: PipelineSession) -> Work:
    """Looks for an open batch, an incomplete load, or a branch that has moved, by a few look-ups in the checkpoint."""
    history = History.of(session.table)
    head = history.head(session.pipeline.branch)
    head_id = None if head is None else head.snapshot_id
    view = session.checkpoint.look()
    _, cursor = session.with_cursor(view.cursor)
    if cursor is None or cursor.is_beginning:
        # Under from_now an empty table is work too: a batch without rows places the cursor before its first snapshot.
        # Otherwise the first run after that snapshot would place it after the first rows.
        has_new = head_id is not None or session.pipeline.initial_load == "from_now"
    elif cursor.load_part is not None:
        has_new = True
    elif is_emptied(history, session.pipeline, cursor):
        # Perhaps another table has the name now. A run stops at that, so that people hear of it.
        has_new = view.pipeline is not None and has_other_meaning(session, view.pipeline)
    else:
        has_new = head_id != cursor.snapshot_id
    return Work(has_open_batch=view.opened is not None, has_new_snapshot=has_new, head_snapshot_id=head_id)
