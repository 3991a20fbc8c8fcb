"""Records a batch before any work on it, and before that, whose the checkpoint, its folder and the sink are."""

from collections.abc import Callable
from dataclasses import replace

from icefloe.batch.context.folder_marker import mark_folder
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.open_batch import NextBatch
from icefloe.batch.open.recorded_pipeline import pipeline_record, refuse_other_meaning
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.records import OffsetRecord, OwnerRecord
from icefloe.errors import TerminalError

__all__ = ["claim_places", "record_batch"]


class SinkTakenOverError(TerminalError):
    """Another pipeline has taken over the sink since this one delivered to it."""

    url: str


def record_batch(batch: NextBatch, *, digest_of: Callable[[BatchSpec], str] | None = None) -> OffsetRecord:
    """Records a batch before any work on it. If another run was first, the record of that run counts.

    Args:
        batch: to open or to resume.
        digest_of: returns the digest of the plan for a specification. The recorded specification may have another
            identity than the batch, if another run was first to record the pipeline.

    Raises:
        OtherOwnerError: the checkpoint belongs to another owner.
        PathClaimedError: the sink's path belongs to another checkpoint.
        SinkTakenOverError: another pipeline has taken over the sink, and this one is not at its beginning.
        ConfigurationChangedError: another run was first, with keys that change the result.
    """
    session, checkpoint = batch.session, batch.session.checkpoint
    # The order counts: whoever owns the checkpoint marks its shuffle folder and claims the sink, then records what the
    # pipeline is, then the batch. A run that is killed in between leaves only what its own next try finds again. The
    # first file of a batch comes after its record, so that nobody takes it for a file without a batch.
    owner = claim_places(session, batch.offset.checkpoint_id)
    _claim_delivery_sink(session, owner.checkpoint_id, batch.offset.batch_number)
    if batch.is_resumed:
        return batch.offset
    recorded = checkpoint.create_pipeline(
        pipeline_record(session, batch.offset.spec.identity, checkpoint_id=owner.checkpoint_id), batch.offset.follows
    )
    refuse_other_meaning(session, recorded)
    spec = replace(batch.offset.spec, identity=recorded.identity.named_as(batch.offset.spec.identity))
    plan_digest = None if digest_of is None else digest_of(spec)
    return checkpoint.create_offset(
        replace(batch.offset, checkpoint_id=owner.checkpoint_id, spec=spec, plan_digest=plan_digest)
    )


def claim_places(session: PipelineSession, new_id: str | None) -> OwnerRecord:
    """Makes the checkpoint, its shuffle folder and the files' folder the pipeline's own; returns the owner's record.

    Args:
        session: session of the pipeline.
        new_id: id of the checkpoint, if it has none yet.

    Raises:
        OtherOwnerError: the checkpoint belongs to another owner.
        PathClaimedError: the sink's path belongs to another checkpoint.
    """
    owner = _claimed(session, new_id)
    mark_folder(session.folder_of_batches(owner.checkpoint_id), session.marker(owner.checkpoint_id))
    session.sink.claim(owner=owner.checkpoint_id, pipeline=session.pipeline.name, table=session.pipeline.table)
    return owner


def _claim_delivery_sink(session: PipelineSession, checkpoint_id: str, batch_number: int) -> None:
    """Makes the sink that batches are delivered to the pipeline's own.

    Another pipeline's sink is taken over only at a beginning, whose load replaces what is there: a pipeline that goes
    on where it ended would write over the rows of the other one.
    """
    with session.delivery_sink() as sink:
        if sink is None:
            return
        goes_on = session.takes_over and session.checkpoint.has_delivered(before=batch_number)
        try:
            sink.claim(session.origin(checkpoint_id), takes_over=session.takes_over and not goes_on)
        except TerminalError as error:
            if not goes_on:
                raise
            raise SinkTakenOverError(
                f"{sink.url} no longer belongs to pipeline {session.pipeline.name}, whose batch {batch_number} would "
                f"go on where others ended: run `icefloe reset {session.pipeline.name}`, then take the sink over with "
                f"the load that follows ({error.sentence})",
                url=sink.url,
            ) from error


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
