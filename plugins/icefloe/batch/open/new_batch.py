"""The record of a new batch: its number and cursor from one look, its range, and the identity of its rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from icefloe.batch.context.session import PipelineSession
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import TerminalError, about_key
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.option_values import ExpandedText
from icefloe.pipeline.recorded_configuration import JSON

if TYPE_CHECKING:
    from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.batch.open.cores import available_cores
from icefloe.batch.open.identity_policy import delivered_columns, identity_of_batch
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.ending import BatchOutcome, Ending
from icefloe.checkpoint.records import OffsetRecord
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.pipeline.recorded_configuration import ChangesPlace
from icefloe.units import now_text
from icefloe.version import VERSION

_KEY: Final = "filter_columns"
_FLOATS: Final = ("float", "double")

Compared = Sequence[tuple[int, str]]
"""Field id and type of each column that a filter names, in the order of the names."""


def filter_columns_of_batch(
    session: PipelineSession, view: CheckpointView, schema: TableSchema, *, after_snapshot_id: int | None
) -> Mapping[str, JSON]:
    """The columns of the filter as the record of a new batch keeps them; nothing without a filter.

    Args:
        session: of the pipeline or of a backfill.
        view: a look at its checkpoint.
        schema: schema in which the batch delivers rows.
        after_snapshot_id: the snapshot up to which the pipeline has delivered; None: none.

    Raises:
        TerminalError: the filter does not fit, or rows that were delivered pass it no longer, or the other way round,
            though nobody changed them.
    """
    pipeline = session.pipeline
    if pipeline.filter is None:
        return {}
    found = _parsed(pipeline, schema)
    if after_snapshot_id is not None and view.cursor is not None and not view.cursor.is_beginning:
        before = _recorded(session, view.cursor.batch_number) or _known(session, after_snapshot_id)
        _refuse_other_columns(before, found, pipeline)
    return {_KEY: [[field_id, kind] for field_id, kind in _compared(found)]}


def _parsed(pipeline: Pipeline, schema: TableSchema) -> "RowFilter":
    from icefloe.iceberg.filters.row_filter import RowFilter  # not needed without a filter

    with about_key("filter"):
        return RowFilter.parse(
            str(pipeline.filter), schema.columns, table=pipeline.table, written=pipeline.as_written.filter
        )


def _compared(row_filter: "RowFilter") -> Compared:
    fields = [row_filter.named[name] for name in sorted(row_filter.named)]
    return [(field.field_id, str(field.field_type)) for field in fields]


def _recorded(session: PipelineSession, batch_number: int) -> Compared:
    """The columns by the record of a batch; none if it only moved the cursor."""
    offset = session.checkpoint.offset(batch_number)
    found = None if offset is None else offset.result_configuration.get(_KEY)
    return [(int(field_id), str(kind)) for field_id, kind in found] if isinstance(found, list) else []


def _known(session: PipelineSession, snapshot_id: int) -> Compared:
    """The columns by the schema of a snapshot; none if it has expired, or if the filter did not fit then."""
    metadata = session.table.metadata
    if metadata.snapshot_by_id(snapshot_id) is None:
        return []
    try:
        return _compared(_parsed(session.pipeline, TableSchema.at(metadata, snapshot_id)))
    except TerminalError:
        return []


def _refuse_other_columns(before: Compared, found: "RowFilter", pipeline: Pipeline) -> None:
    """Stops if a name is that of another column now, or if its numbers are compared otherwise."""
    given = ExpandedText.of(str(pipeline.filter), pipeline.as_written.filter)
    for name, (was_id, was), (now_id, now) in zip(sorted(found.named), before, _compared(found), strict=False):
        column = f"column {name!r}" if given.says(name) else f"a column made of {given.references}"
        if was_id != now_id:
            change = "is another column now, and rows that were delivered are judged by other values"
            way = "restore the column's name, or start over"
        elif was != now and {was, now} == {*_FLOATS} and (now == "float" or found.rounds(name)):
            change = f"was a {was} and is a {now} now, and no float equals the number that it is compared with"
            way = "start over"
        else:
            continue
        raise TerminalError(
            f"pipeline {pipeline.name} has filtered rows of table {pipeline.table} by {column} since its first batch, "
            f"but it {change}; {way} by icefloe reset {pipeline.name}",
            table=pipeline.table,
            key="filter",
        )


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
    # Asked also if the master knows better, so that a bad number in spark.conf is refused before the batch is open.
    here = available_cores(pipeline)
    schema = TableSchema.at(table.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id)
    recorded = None if view.pipeline is None else view.pipeline.identity
    identity, warnings = identity_of_batch(recorded, schema, session.table, pipeline)
    columns = delivered_columns(pipeline, identity, schema)
    filter_columns = filter_columns_of_batch(session, view, schema, after_snapshot_id=snapshots.after_snapshot_id)
    followed_id = None if view.cursor is None else view.cursor.snapshot_id
    if followed_id is None:
        followed_id = snapshots.after_snapshot_id
    return OffsetRecord(
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
            cores=cores or here,
            hash_key=session.surroundings.new_key(),
        ),
        ending=Ending.after(
            view.cursor,
            BatchOutcome.DELIVERED,
            snapshot_id=snapshots.up_to_snapshot_id,
            snapshot=table.history.recorded(snapshots.up_to_snapshot_id),
            load_part=snapshots.steps[0].load_part if snapshots.steps else None,
        ),
        warnings=(*snapshots.warnings, *warnings),
        result_configuration={
            **session.result_configuration,
            **ChangesPlace.of(pipeline).configuration,
            **filter_columns,
        },
        opened_at=now_text(),
        icefloe_version=VERSION,
    )
