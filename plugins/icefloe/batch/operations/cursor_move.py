"""A move of the cursor: looked up, shown, then made as a batch that delivers nothing.

The batch is recorded first. Any run that finds it open completes it, so the move survives a kill at any place.
"""

from dataclasses import dataclass, replace

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.ends.empty_end import BatchStateError, EmptyEnd
from icefloe.batch.ends.end_batch import complete_unfinished_end, end_here
from icefloe.batch.open.claim_batch import claim_places
from icefloe.batch.open.identity_policy import choose_identity, has_row_ids
from icefloe.batch.open.recorded_coordination import refuse_other_coordination
from icefloe.batch.open.recorded_pipeline import record_pipeline
from icefloe.batch.operations.half_delivered import half_delivered_end
from icefloe.batch.status.publish_status import publish_status
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.ending import BatchOutcome, Ending
from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, PipelineRecord
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import TransientError
from icefloe.iceberg.history.history import History
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.recorded_configuration import result_configuration
from icefloe.sinks.change_files import ChangeFiles
from icefloe.units import now_text
from icefloe.version import VERSION

__all__ = ["complete_unfinished", "make_move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """A pipeline, its checkpoint and its table, looked at in this order, with no batch open.

    Attributes:
        given_up: end of the half-delivered batch that was open, as if it had happened already; None: none was open.
    """

    session: PipelineSession
    view: CheckpointView
    given_up: EmptyEnd | None = None

    @classmethod
    def of(cls, session: PipelineSession, *, gives_up: bool = False) -> "PipelineView":
        """A look at a pipeline.

        Args:
            session: session of the pipeline.
            gives_up: True if a batch may be open that is half delivered, because the caller gives it up.

        Raises:
            BatchStateError: a batch is open.
            TerminalError: the checkpoint is in a table that the pipeline no longer names.
            TerminalError: the checkpoint was in the table that the pipeline names, and is not there.
        """
        view = session.checkpoint.look()
        if view.checkpoint_id is None:
            refuse_other_coordination(session)
        given_up = half_delivered_end(session, view) if gives_up else None
        if given_up is not None:
            view = replace(view, cursor=given_up.ending.cursor, opened=None)
        if view.opened is not None:
            number, name = view.opened.batch_number, session.pipeline.name
            raise BatchStateError(
                f"batch {number} of {name} is open, so the cursor cannot be moved: icefloe run {name} finishes the "
                f"batch, icefloe abandon {name} gives it up",
                batch_number=number,
            )
        return cls(session=session.with_fresh_table(), view=view, given_up=given_up)

    def chosen_identity(self, snapshot_id: int | None) -> Identity:
        """The identity of a pipeline that begins now."""
        pipeline, table = self.session.pipeline, self.session.table
        return choose_identity(
            pipeline.identifier_columns,
            TableSchema.at(table.metadata, snapshot_id),
            table=pipeline.table,
            has_row_ids=has_row_ids(table, pipeline.computed_changes),
        )

    def head_id(self) -> int | None:
        """The snapshot that the pipeline's branch points to."""
        newest = History.of(self.session.table).head(self.session.pipeline.branch)
        return None if newest is None else newest.snapshot_id

    def offset(
        self, outcome: BatchOutcome, snapshot_id: int | None, identity: Identity, record: PipelineRecord | None
    ) -> OffsetRecord:
        """The record of a batch that moves the cursor to a snapshot."""
        view, pipeline = self.view, self.session.pipeline
        return OffsetRecord(
            checkpoint_id=view.checkpoint_id or self.session.surroundings.new_name(),
            opened_by=self.session.writer,
            follows=view.cursor,
            spec=BatchSpec(
                after_snapshot_id=snapshot_id,
                up_to_snapshot_id=snapshot_id,
                steps=(),
                identity=identity,
                changes=pipeline.computed_changes,
                columns=pipeline.columns,
                filter=pipeline.as_written.filter,
                cores=1,
                hash_key=self.session.surroundings.new_key(),
            ),
            ending=Ending.after(
                view.cursor,
                outcome,
                snapshot_id=snapshot_id,
                snapshot=History.of(self.session.table).recorded(snapshot_id),
                has_pipeline=record is not None,
            ),
            pipeline=record,
            result_configuration=result_configuration(pipeline),
            opened_at=now_text(),
            icefloe_version=VERSION,
        )


def complete_unfinished(session: PipelineSession) -> CommitRecord | None:
    """Completes a move or an abandon that was killed; returns its commit record, or None if there was none."""
    done = complete_unfinished_end(session, session.checkpoint.look())
    if done is not None:
        publish_status(session, phase="cleanup")
    return done


def make_move(session: PipelineSession, offset: OffsetRecord) -> CommitRecord:
    """Records a move and completes it; returns the commit record that counts.

    Raises:
        TransientError: another run used the number first.
        OtherOwnerError: the checkpoint belongs to another owner.
        PathClaimedError: the sink's path belongs to another checkpoint.
        PathInUseError: the sink already holds a batch of this number.
    """
    pipeline, checkpoint, number = session.pipeline, session.checkpoint, offset.batch_number
    # Before the record: a move that no sink takes could never be completed, and would stop the pipeline.
    for folder in session.numbered_folders:
        _require_free(folder, pipeline, offset)
    owner = claim_places(session, offset.checkpoint_id)
    if offset.ending.outcome is BatchOutcome.CURSOR_SET:
        record_pipeline(session, offset, checkpoint_id=owner.checkpoint_id)
    found = checkpoint.create_offset(replace(offset, checkpoint_id=owner.checkpoint_id))
    if (found.ending, found.pipeline) != (offset.ending, offset.pipeline):
        raise TransientError(
            f"another run of {pipeline.name} opened batch {number} meanwhile, so the cursor was not moved: look "
            "again, and pause the pipeline before you move its cursor",
            batch_number=number,
        )
    done = end_here(session, EmptyEnd.of_open(found, pipeline))
    publish_status(session, phase="cleanup")
    return done


def _require_free(folder: ChangeFiles, pipeline: Pipeline, offset: OffsetRecord) -> None:
    """Raise unless a folder can be written, and has no other batch of the number of a move."""
    folder.check()
    folder.refuse_other_batch(
        pipeline=pipeline.name,
        table=pipeline.table,
        batch_number=offset.batch_number,
        after_snapshot_id=offset.after_snapshot_id,
        up_to_snapshot_id=offset.up_to_snapshot_id,
    )
