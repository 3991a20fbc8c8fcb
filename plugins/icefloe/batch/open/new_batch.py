"""The record of a new batch: its number and cursor from one look, its range, and the identity of its rows."""

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.cores import available_cores
from icefloe.batch.open.filter_policy import filter_columns_of_batch
from icefloe.batch.open.identity_policy import delivered_columns, identity_of_batch
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.records import OffsetRecord
from icefloe.checkpoint.view import CheckpointView
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.steps.steps import SnapshotRange
from icefloe.pipeline.recorded_configuration import ChangesPlace
from icefloe.units import now_text
from icefloe.version import VERSION


def new_batch(
    session: PipelineSession, table: LoadedTable, view: CheckpointView, snapshots: SnapshotRange, cores: int | None
) -> OffsetRecord:
    """The batch after the cursor of a view. Number, cursor and load part all come from that one look.

    Args:
        session: of the pipeline or of the backfill.
        table: the session's table, as the range was planned.
        view: a look at the session's checkpoint.
        snapshots: the range.
        cores: cores of the Spark master; None: as its configuration or this machine says.

    Raises:
        TerminalError: a column that identifies rows or that the filter compares is not in the table, or is another one.
    """
    pipeline = session.pipeline
    schema = TableSchema.at(table.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id)
    recorded = None if view.pipeline is None else view.pipeline.identity
    identity, warnings = identity_of_batch(recorded, schema, session.table, pipeline)
    columns = delivered_columns(pipeline, identity, schema)
    filter_columns = filter_columns_of_batch(session, view, schema, after_snapshot_id=snapshots.after_snapshot_id)
    followed_id = None if view.cursor is None else view.cursor.snapshot_id
    if followed_id is None:
        followed_id = snapshots.after_snapshot_id
    return OffsetRecord(
        batch_number=view.next_number,
        checkpoint_id=view.checkpoint_id or session.surroundings.new_name(),
        opened_by=session.writer,
        follows=view.cursor,
        spec=BatchSpec(
            # Readers know the snapshot by its own id, also if the table has given that to another one.
            after_snapshot_id=snapshots.after_snapshot_id if snapshots.after_snapshot_id is None else followed_id,
            up_to_snapshot_id=snapshots.up_to_snapshot_id,
            steps=snapshots.steps,
            skipped_replace_snapshots=snapshots.skipped_replace_snapshots,
            is_reload=snapshots.is_reload,
            identity=identity,
            changes=pipeline.computed_changes,
            columns=columns,
            filter=pipeline.as_written.filter,
            partitions=pipeline.shuffle.partitions,
            target_size_bytes=pipeline.shuffle.target_size_bytes,
            map_task_bytes=pipeline.shuffle.map_task_bytes,
            target_file_bytes=pipeline.changes_folder.target_file_bytes,
            cores=cores or available_cores(pipeline),
            hash_key=session.surroundings.new_key(),
        ),
        warnings=(*snapshots.warnings, *warnings),
        result_configuration={
            **session.result_configuration,
            **ChangesPlace.of(pipeline).configuration,
            **filter_columns,
        },
        opened_at=now_text(),
        icefloe_version=VERSION,
        snapshot=table.history.recorded(snapshots.up_to_snapshot_id),
    )
