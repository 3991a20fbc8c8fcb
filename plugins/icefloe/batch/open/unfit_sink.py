"""The checks that a batch may be opened for its sink, made before anything of the batch is written."""

from dataclasses import replace

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_batch import NextBatch
from icefloe.checkpoint.identity import Identity
from icefloe.errors import TerminalError
from icefloe.pipeline.model import with_lines

__all__ = ["refuse_rows_without_key", "refuse_unfit_sink"]


def refuse_unfit_sink(batch: NextBatch) -> NextBatch:
    """Stops a batch that is not open yet if its sink cannot take it. A batch that is open stays open.

    Returns:
        The batch. If its checkpoint was lost and the sink holds it whole, with the key under which it was delivered.

    Raises:
        TerminalError: the sink's path belongs to another pipeline or to an earlier life of this one, or holds another
            batch of this number; or the sink is keyed and rows have no key.
    """
    offset, session = batch.offset, batch.session
    if batch.is_resumed or session.checkpoint.committed(offset.batch_number) is not None:
        return batch
    refuse_rows_without_key(session, offset.spec.identity)
    key = session.folder_of_changes.refuse_other_batch(
        pipeline=session.pipeline.name,
        table=session.pipeline.table,
        batch_number=offset.batch_number,
        after_snapshot_id=offset.after_snapshot_id,
        up_to_snapshot_id=offset.up_to_snapshot_id,
    )
    if offset.follows is None:
        _refuse_claimed_sink(session, offset.checkpoint_id)
    if key is None:
        return batch
    return replace(batch, offset=replace(offset, spec=replace(offset.spec, hash_key=key)))


def refuse_rows_without_key(session: PipelineSession, identity: Identity) -> None:
    """Stops a pipeline that needs identifier columns and has none; row ids of V3 tables do not survive every commit.

    Raises:
        TerminalError: the sink is keyed, or changes is upsert, and rows have no identifier columns.
    """
    if identity.columns:
        return
    needed_by = "changes: upsert gives the last state of each row" if session.pipeline.changes == "upsert" else None
    with session.delivery_sink() as sink:
        if sink is not None and sink.keyed:
            needed_by = f"a sink of type {session.pipeline.sink.type} holds one entry per row"
    if needed_by is None:
        return
    with with_lines(session.pipeline):
        raise TerminalError(
            f"{needed_by}, and table {session.pipeline.table} has no identifier columns: name columns that identify a "
            "row in identifier_columns",
            table=session.pipeline.table,
            key="identifier_columns",
        )


def _refuse_claimed_sink(session: PipelineSession, checkpoint_id: str) -> None:
    """Stops before the checkpoint is begun, because a record of its owner would block whoever begins it later."""
    try:
        _refuse_other_owner(session, checkpoint_id)
    except TerminalError:
        # The id was made for this run; another run of the same pipeline may have begun with its own meanwhile.
        begun = session.checkpoint.owner()
        if begun is None:
            raise
        _refuse_other_owner(session, begun.checkpoint_id)


def _refuse_other_owner(session: PipelineSession, checkpoint_id: str) -> None:
    pipeline = session.pipeline
    session.folder_of_changes.refuse_other_owner(owner=checkpoint_id, pipeline=pipeline.name, table=pipeline.table)
    if session.takes_over:
        return
    with session.delivery_sink() as sink:
        if sink is not None:
            sink.refuse_other_owner(session.origin(checkpoint_id))
