"""The check that a batch may be opened for its sink, made before anything of the batch is written."""

from functools import partial

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.open_batch import NextBatch
from icefloe.errors import TerminalError

__all__ = ["refuse_occupied_sink"]


def refuse_occupied_sink(batch: NextBatch) -> None:
    """Stops a batch that is not open yet if its sink is another pipeline's, or holds another batch of its number.

    A batch that is open stays open.

    Raises:
        TerminalError: the sink's path belongs to another pipeline, or to an earlier life of this one.
    """
    offset, session = batch.offset, batch.session
    if batch.is_resumed or session.checkpoint.committed(offset.batch_number) is not None:
        return
    session.sink.refuse_other_batch(
        pipeline=session.pipeline.name,
        table=session.pipeline.table,
        batch_number=offset.batch_number,
        after_snapshot_id=offset.after_snapshot_id,
        up_to_snapshot_id=offset.up_to_snapshot_id,
    )
    if offset.follows is None and offset.checkpoint_id is not None:
        _refuse_claimed_sink(session, offset.checkpoint_id)


def _refuse_claimed_sink(session: PipelineSession, checkpoint_id: str) -> None:
    """Stops before the checkpoint is begun, because a record of its owner would block whoever begins it later."""
    refuse = partial(session.sink.refuse_other_owner, pipeline=session.pipeline.name, table=session.pipeline.table)
    try:
        refuse(owner=checkpoint_id)
    except TerminalError:
        # The id was made for this run; another run of the same pipeline may have begun with its own meanwhile.
        begun = session.checkpoint.owner()
        if begun is None:
            raise
        refuse(owner=begun.checkpoint_id)
