"""Records a batch before any work on it, and before that, whose the checkpoint, its folder and the sink are."""

from dataclasses import replace

from icefloe.batch.batch_keys import begun_key
from icefloe.batch.context.folder_marker import FolderMarker, mark_folder
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_batch import NextBatch
from icefloe.batch.open.recorded_pipeline import record_pipeline
from icefloe.batch.run_settings import checkpoint_url_of
from icefloe.checkpoint.records import OffsetRecord, OwnerRecord
from icefloe.errors import TerminalError
from icefloe.storage.keys import join_url

__all__ = ["claim_batch", "claim_places", "record_batch"]


def claim_batch(batch: NextBatch) -> NextBatch:
    """Makes checkpoint, shuffle folder and sink the pipeline's own, and records the pipeline with its first batch.

    Returns:
        The batch as it is to be recorded: with the id of the checkpoint, and with the identity that counts. If another
        run was first to record the pipeline, that is the identity that this run found.

    Raises:
        OtherOwnerError: the checkpoint belongs to another owner.
        PathClaimedError: the sink's path belongs to another checkpoint.
        TerminalError: another pipeline has taken over the sink, and this one is not at its beginning.
        ConfigurationChangedError: another run was first, with keys that change the result.
    """
    # The order counts: whoever owns the checkpoint marks its shuffle folder and claims the sink, then records what the
    # pipeline is, then the batch. A run that is killed in between leaves only what its own next try finds again. The
    # first file of a batch comes after its record, so that nobody takes it for a file without a batch.
    session, offset = batch.session, batch.offset
    owner = claim_places(session, offset.checkpoint_id)
    _claim_delivery_sink(session, owner.checkpoint_id, batch)
    if batch.is_resumed:
        return batch
    recorded = record_pipeline(session, offset, checkpoint_id=owner.checkpoint_id)
    spec = replace(offset.spec, identity=recorded.identity.named_as(offset.spec.identity))
    return replace(batch, offset=replace(offset, checkpoint_id=owner.checkpoint_id, spec=spec))


def record_batch(batch: NextBatch, *, plan_digest: str) -> OffsetRecord:
    """Records a claimed batch before any work on it. If another run was first, the record of that run counts.

    Args:
        batch: as `claim_batch` returned it.
        plan_digest: digest of its plan.
    """
    if batch.is_resumed:
        return batch.offset
    recorded = batch.session.checkpoint.create_offset(replace(batch.offset, plan_digest=plan_digest))
    if batch.session.backfill_id is not None:
        # A sweep that saw no open batch may have taken the marker with the backfill's last one, until this record.
        _mark_folder(batch.session, recorded.checkpoint_id)
    return recorded


def claim_places(session: PipelineSession, new_id: str | None) -> OwnerRecord:
    """Makes the checkpoint, its shuffle folder and the files' folders the pipeline's own; returns the owner's record.

    Args:
        session: session of the pipeline.
        new_id: id of the checkpoint, if it has none yet.

    Raises:
        OtherOwnerError: the checkpoint belongs to another owner.
        PathClaimedError: the sink's path belongs to another checkpoint.
    """
    owner = _claimed(session, new_id)
    _mark_folder(session, owner.checkpoint_id)
    for folder in session.numbered_folders:
        folder.claim(owner=owner.checkpoint_id, pipeline=session.pipeline.name, table=session.pipeline.table)
    return owner


def _mark_folder(session: PipelineSession, checkpoint_id: str) -> None:
    """Leads from the shuffle folder of a checkpoint to the checkpoint."""
    written = session.pipeline.as_written
    folder, url = session.open_storage(join_url(session.pipeline.shuffle_url, checkpoint_id)), session.checkpoint.url
    records = session.open_storage(url) if url.startswith("dynamodb://") else folder
    marker = FolderMarker(
        checkpoint_id=checkpoint_id,
        checkpoint_url=checkpoint_url_of(written, session.backfill_id),
        pipeline=session.pipeline.name,
        backfill_id=session.backfill_id,
        changes_url=None if written.changelog is None else written.changelog.path,
        coordination=written.coordination,
        table=records.created_in or None,
    )
    mark_folder(folder, marker)


def _claim_delivery_sink(session: PipelineSession, checkpoint_id: str, batch: NextBatch) -> None:
    """Makes the sink that batches are delivered to the pipeline's own.

    Another pipeline's sink is taken over only at a beginning, which replaces what is there: a batch that goes on would
    be written among the rows of the other one, also the first batch of a pipeline whose cursor was set. A load of which
    the sink has had a part goes on, too. A sink that lost the record of its owner is nobody's: a load after a reset
    claims it.
    """
    batch_number = batch.offset.batch_number
    with session.delivery_sink() as sink:
        if sink is None:
            return
        goes_on = session.takes_over and (not batch.offset.begins_anew or _is_begun(batch))
        origin = session.origin(checkpoint_id)
        try:
            sink.claim(origin, takes_over=session.takes_over and not goes_on)
        except TerminalError as error:
            if batch.offset.begins_anew and batch.offset.follows is not None and error.facts.get("owner") == "":
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
    return batch.is_resumed and batch.session.reference(batch.offset).folder.size(begun_key()) is not None


def _claimed(session: PipelineSession, new_id: str | None) -> OwnerRecord:
    """The owner's record; a backfill belongs to the owner of its pipeline, whoever began it."""
    takes_over = session.takes_over
    if session.backfill_id is not None:
        pipeline = replace(session, backfill_id=None).checkpoint
        if not takes_over:
            pipeline.refuse_other(session.writer)
        owner = pipeline.owner()
        takes_over = takes_over or (owner is not None and owner.writer.owner == session.writer.owner)
    return session.checkpoint.claim_for(session.writer, takes_over=takes_over, new_id=new_id)
