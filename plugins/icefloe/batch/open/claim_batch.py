"""Records a batch before any work on it, and before that the owner of its places."""

from dataclasses import replace

from icefloe.batch.context.batch_folder import FolderMarker
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_batch import NextBatch
from icefloe.batch.open.recorded_pipeline import record_pipeline
from icefloe.batch.run_settings import RunSettings
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.records import OffsetRecord
from icefloe.errors import TerminalError

__all__ = ["claim_batch", "claim_places", "fitted_to_sink", "record_batch", "refuse_rows_without_key"]


def fitted_to_sink(batch: NextBatch) -> NextBatch:
    """The batch; `TerminalError` if it is not open yet and its sink cannot take it, such as another pipeline's.

    If its checkpoint was lost and the sink holds it whole, it has the key under which it was delivered.
    """
    offset, session = batch.offset, batch.session
    if batch.is_resumed or session.checkpoint.committed(offset.batch_number) is not None:
        return batch
    refuse_rows_without_key(session, offset.spec.identity)
    origin = session.origin(offset.checkpoint_id)
    key = session.folder_of_changes.refuse_other_batch(
        origin, offset.batch_number, after=offset.spec.after_snapshot_id, up_to=offset.spec.up_to_snapshot_id
    )
    if offset.follows is None:
        # Looked at before the checkpoint is begun: a record of its owner would block its next owner.
        try:
            _look_at_claims(session, offset.checkpoint_id)
        except TerminalError:
            # The id was made for this run; another run of the same pipeline may have begun with its own meanwhile.
            begun = session.checkpoint.owner()
            if begun is None:
                raise
            _look_at_claims(session, begun.checkpoint_id)
    if key is None:
        return batch
    return replace(batch, offset=replace(offset, spec=replace(offset.spec, hash_key=key)))


def refuse_rows_without_key(session: PipelineSession, identity: Identity) -> None:
    """Requires identifier columns for a keyed sink and ``upsert``: row ids of V3 tables do not survive every commit."""
    if identity.columns:
        return
    needed_by = "changes: upsert gives the last state of each row" if session.pipeline.changes == "upsert" else None
    with session.delivery_sink() as sink:
        if sink is not None and sink.keyed and not sink.takes_whole_rows:
            needed_by = f"a sink of type {session.pipeline.sink.type} holds one entry per row"
    if needed_by is None:
        return
    with session.pipeline.with_lines():
        raise TerminalError(
            f"{needed_by}, and table {session.pipeline.table} has no identifier columns: name columns that identify a "
            "row in identifier_columns",
            table=session.pipeline.table,
            key="identifier_columns",
        )


def _look_at_claims(session: PipelineSession, checkpoint_id: str) -> None:
    """`TerminalError` if the folder of changes, or a sink that is not to be taken over, is another checkpoint's."""
    origin = session.origin(checkpoint_id)
    session.folder_of_changes.claim(origin, only_looks=True)
    if session.takes_over:
        return
    with session.delivery_sink() as sink:
        if sink is not None:
            sink.claim(origin, only_looks=True)


def claim_batch(batch: NextBatch) -> NextBatch:
    """Makes checkpoint, shuffle folder and sink the pipeline's own, and records the pipeline with its first batch.

    Returns:
        The batch as it is to be recorded, with the checkpoint's id, and with the identity that the pipeline's first
        record has, if another run wrote it.

    Raises:
        TerminalError: another pipeline has taken over the sink, and this one is not at its beginning.
    """
    # The order counts: whoever owns the checkpoint marks its shuffle folder and claims the sink, then records what the
    # pipeline is, then the batch. A run that is killed in between leaves only what its own next try finds again. The
    # first file of a batch comes after its record, so that nobody takes it for a file without a batch.
    batch = fitted_to_sink(batch)
    session, offset = batch.session, batch.offset
    checkpoint_id = claim_places(session, offset.checkpoint_id)
    _claim_delivery_sink(session, checkpoint_id, batch)
    if batch.is_resumed:
        return batch
    recorded = record_pipeline(session, offset, checkpoint_id=checkpoint_id)
    spec = replace(offset.spec, identity=recorded.identity.named_as(offset.spec.identity))
    return replace(batch, offset=replace(offset, checkpoint_id=checkpoint_id, spec=spec))


def record_batch(batch: NextBatch, *, plan_digest: str) -> OffsetRecord:
    """Records a claimed batch before any work on it. If another run was first, its record counts."""
    if batch.is_resumed:
        return batch.offset
    return batch.session.checkpoint.create_offset(replace(batch.offset, plan_digest=plan_digest))


def claim_places(session: PipelineSession, new_id: str | None) -> str:
    """Makes the checkpoint, its shuffle folder and the files' folders the pipeline's own; returns the checkpoint's id.

    Args:
        new_id: id of the checkpoint, if it has none yet.
    """
    checkpoint_id = _claimed(session, new_id)
    _mark_folder(session, checkpoint_id)
    for folder in session.numbered_folders:
        folder.claim(session.origin(checkpoint_id))
    return checkpoint_id


def _mark_folder(session: PipelineSession, checkpoint_id: str) -> None:
    written = session.pipeline.as_written
    folder, url = session.open_storage(session.pipeline.shuffle_url).child(checkpoint_id), session.checkpoint.url
    records = session.open_storage(url) if url.startswith("dynamodb://") else folder
    marker = FolderMarker(
        checkpoint_id=checkpoint_id,
        checkpoint_url=RunSettings(pipeline=written, backfill_id=session.backfill_id).checkpoint_url,
        pipeline=session.pipeline.name,
        backfill_id=session.backfill_id,
        changes_url=None if written.changelog is None else written.changelog.path,
        coordination=written.coordination,
        table=records.created_in or None,
    )
    marker.mark(folder)


def _claim_delivery_sink(session: PipelineSession, checkpoint_id: str, batch: NextBatch) -> None:
    """Makes the sink that batches are delivered to the pipeline's own."""
    batch_number = batch.offset.batch_number
    with session.delivery_sink() as sink:
        if sink is None:
            return
        session.refuse_local(sink)
        # Another pipeline's sink is taken over only at a beginning, which replaces its rows. A begun load goes on, too.
        goes_on = session.takes_over and (not batch.offset.begins_anew or _is_begun(batch))
        origin = session.origin(checkpoint_id)
        try:
            sink.claim(origin, takes_over=session.takes_over and not goes_on)
        except TerminalError as error:
            if batch.offset.begins_anew and batch.offset.follows is not None and error.owner == "":
                # What is there replaced by the load, and whose it was is lost: a reset is the way out of that.
                sink.claim(origin, takes_over=True)
                return
            if not goes_on:
                raise
            raise TerminalError(
                f"{sink.url} does not belong to pipeline {session.pipeline.name}, whose batch {batch_number} would "
                f"go on where others ended: run `icefloe reset {session.pipeline.name}`, then take the sink over with "
                f"the load that follows ({error.sentence})",
                url=sink.url,
            ) from error


def _is_begun(batch: NextBatch) -> bool:
    """True if the sink may have a part of an open batch."""
    return batch.is_resumed and batch.session.reference(batch.offset).has_begun_delivery


def _claimed(session: PipelineSession, new_id: str | None) -> str:
    """A backfill belongs to the owner of its pipeline."""
    takes_over = session.takes_over
    if session.backfill_id is not None:
        pipeline = replace(session, backfill_id=None).checkpoint
        if not takes_over:
            pipeline.refuse_other(session.writer)
        owner = pipeline.owner()
        takes_over = takes_over or (owner is not None and owner.writer.owner == session.writer.owner)
    return session.checkpoint.claim_for(session.writer, takes_over=takes_over, new_id=new_id).checkpoint_id
