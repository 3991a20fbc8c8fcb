"""The columns that identify, deliver and filter rows; what an earlier batch used them for stays."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from icefloe.batch.context.session import PipelineSession
from icefloe.changes.columns import ChangeColumns
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.records import Cursor
from icefloe.errors import ExpandedText, TerminalError, about_key
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.schemas.column_paths import IdentifierColumns
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import ChangesOption, SinkSettings

if TYPE_CHECKING:
    from icefloe.iceberg.filters.row_filter import RowFilter

__all__ = ["choose_identity", "has_row_ids", "pipeline_identity"]

_ROW_LINEAGE: Final = 3


def has_row_ids(table: LoadedTable, changes: ChangesOption) -> bool:
    """True if row ids can identify rows: in V3 tables, within one step."""
    return table.metadata.format_version >= _ROW_LINEAGE and changes == "each"


def choose_identity(
    identifier_columns: Sequence[str] | None, schema: TableSchema, *, table: str, has_row_ids: bool
) -> Identity:
    """The identity of a pipeline or a read: given columns, or the table's identifier fields, or row ids, or none.

    Args:
        identifier_columns: dotted names; None if the caller names none.
        has_row_ids: True if row ids may identify rows: only within one step, because ids do not survive every
            compaction.

    Raises:
        TerminalError: a column does not exist, or cannot identify rows.
    """
    if identifier_columns:
        columns = tuple(identifier_columns)
        try:
            IdentifierColumns.named(schema.columns, columns)
        except TerminalError as cause:
            raise cause.restated(
                f"identifier_columns does not fit table {table}: {cause.sentence}",
                table=table,
                key="identifier_columns",
            ) from cause
        return Identity(policy="pipeline", columns=columns, field_ids=_field_ids(columns, schema))
    if schema.identifier_columns:
        columns = schema.identifier_columns
        return Identity(policy="table", columns=columns, field_ids=_field_ids(columns, schema))
    return Identity(policy="row_id" if has_row_ids else "none")


def pipeline_identity(pipeline: Pipeline, table: LoadedTable, schema: TableSchema) -> Identity:
    """The identity if the pipeline begins now; see `choose_identity`."""
    row_ids = has_row_ids(table, pipeline.computed_changes)
    return choose_identity(pipeline.identifier_columns, schema, table=pipeline.table, has_row_ids=row_ids)


def delivered_columns(pipeline: Pipeline, identity: Identity, schema: TableSchema) -> tuple[str, ...] | None:
    """None: all. A sink needs the identity even if the pipeline does not select it."""
    with about_key("columns"):
        shown = schema if pipeline.columns is None else schema.select(pipeline.columns)
    with about_key("sink.order_by"):
        plain = {*ChangeColumns.ALL} - {ChangeColumns.PROPERTIES}
        names = [name for name in pipeline.sink.sorted_columns if name not in plain]
        IdentifierColumns.named(shown.columns, names, noun="sort key")
    if pipeline.sink.columns_as == "delta" and ChangeColumns.VERSION in shown.arrow.names:
        raise TerminalError(
            f"the table has a column {ChangeColumns.VERSION}, and so has columns_as: delta: rename it, or leave it out "
            "of columns",
            key="sink.columns_as",
        )
    with about_key("sink.partition_by"):
        _require_partitions(pipeline.sink, shown)
    if pipeline.columns is None or not pipeline.delivers:
        return pipeline.columns
    selected = shown.arrow
    return (*pipeline.columns, *IdentifierColumns.named(schema.columns, identity.columns).missing_in(selected))


def _require_partitions(sink: SinkSettings, shown: TableSchema) -> None:
    names = sink.partition_by
    # Readers find folders as columns too: that of the batch, and an event's are beside its own columns.
    taken = ["batch", *(("before", "after", "source", "op", "ts_ms") if sink.columns_as == "debezium" else ())]
    IdentifierColumns.named(shown.columns, names, noun="partition")
    for name in names:
        # Readers leave out what begins with these characters.
        is_taken = name.lower() in taken or name.startswith(("_", "."))
        if is_taken or name not in shown.arrow.names or pa.types.is_floating(shown.arrow.field(name).type):
            raise TerminalError(
                f"files cannot be partitioned by column {name!r}: it must be at the top, no float, not named "
                f"{' or '.join(taken)}, and its name must not begin with _ or ."
            )
    if len(names) == len(shown.arrow.names):
        raise TerminalError("files cannot be partitioned by all of their columns: leave out one")


def kept_identity(
    recorded: Identity, schema: TableSchema, *, pipeline: str, table: str
) -> tuple[Identity, tuple[str, ...]]:
    """The recorded identity, and a warning if the table has another one now."""
    # It follows renamed identifier fields, but not columns that a pipeline names, nor a column that got the name.
    recorded = recorded.named_by(schema.columns.find_column_name)
    try:
        IdentifierColumns.named(schema.columns, recorded.columns)
        _require_same_columns(recorded, schema)
    except TerminalError as cause:
        raise cause.restated(
            f"pipeline {pipeline} has identified rows of table {table} by {_named(recorded.columns)} since its first "
            f"batch, but {cause.sentence}; restore the column's name, or start over by icefloe reset {pipeline}",
            table=table,
        ) from cause
    if recorded.policy == "pipeline" or recorded.columns == schema.identifier_columns:
        return recorded, ()
    warning = (
        f"the table's identifier fields are {_named(schema.identifier_columns)} now; pipeline {pipeline} goes on with "
        f"{'_row_id' if recorded.policy == 'row_id' else _named(recorded.columns)}, as it began"
    )
    return recorded, (warning,)


def _require_same_columns(recorded: Identity, schema: TableSchema) -> None:
    """Another column may have the name now: its values say nothing of delivered rows."""
    for name, was, now in zip(recorded.columns, recorded.field_ids, _field_ids(recorded.columns, schema), strict=False):
        if was != now:
            renamed = schema.columns.find_column_name(was)
            became = "was dropped" if renamed is None else f"is named {renamed!r} now"
            raise TerminalError(f"column {name!r} of then {became}, and {name!r} is another column", column=name)


def _field_ids(columns: Sequence[str], schema: TableSchema) -> tuple[int, ...]:
    """None of them if a column is missing."""
    ids = {name: schema.columns.find_field(name).field_id for name in columns if name in schema.columns.column_names}
    return tuple(ids[name] for name in columns) if len(ids) == len(columns) else ()


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "none"


_KEY: Final = "filter_columns"

Compared = Sequence[Sequence[object]]
"""Field id and type of each column that a filter names, in the order of the names."""


def filter_columns_of_batch(
    session: PipelineSession, view: CheckpointView, schema: TableSchema, *, after_snapshot_id: int | None
) -> Mapping[str, object]:
    """Columns of the filter for the record of a batch; `TerminalError` if it would sort delivered rows otherwise."""
    pipeline = session.pipeline
    if pipeline.filter is None:
        return {}
    found = _parsed(pipeline, schema)
    if after_snapshot_id is not None and view.cursor is not None and not view.cursor.is_beginning:
        change = _change_since(_compared_before(session, view.cursor, after_snapshot_id), found, pipeline)
        if change is not None:
            raise TerminalError(
                f"pipeline {pipeline.name} has filtered rows of table {pipeline.table} by {change} by icefloe reset "
                f"{pipeline.name}",
                table=pipeline.table,
                key="filter",
            )
    return {_KEY: _compared(found)}


def _parsed(pipeline: Pipeline, schema: TableSchema) -> "RowFilter":
    from icefloe.iceberg.filters.row_filter import RowFilter  # not needed without a filter

    with about_key("filter"):
        return RowFilter.parse(
            str(pipeline.filter), schema.columns, table=pipeline.table, written=pipeline.as_written.filter
        )


def _compared(row_filter: "RowFilter") -> Compared:
    fields = [row_filter.named[name] for name in sorted(row_filter.named)]
    return [[field.field_id, str(field.field_type)] for field in fields]


def _compared_before(session: PipelineSession, cursor: Cursor, snapshot_id: int) -> Compared:
    """By the record of the batch before or, if that only moved the cursor, by the schema of its snapshot."""
    offset, metadata = session.checkpoint.offset(cursor.batch_number), session.table.metadata
    recorded = None if offset is None else offset.result_configuration.get(_KEY)
    if isinstance(recorded, list):
        return recorded
    # None if the snapshot has expired, or if the filter did not fit then.
    with suppress(TerminalError):
        if metadata.snapshot_by_id(snapshot_id) is not None:
            return _compared(_parsed(session.pipeline, TableSchema.at(metadata, snapshot_id)))
    return []


def _change_since(before: Compared, found: "RowFilter", pipeline: Pipeline) -> str | None:
    """A column, its change and the way out, if its name is another column's now or its numbers compare otherwise."""
    given = ExpandedText.of(str(pipeline.filter), pipeline.as_written.filter)
    for name, (was_id, was), (now_id, now) in zip(sorted(found.named), before, _compared(found), strict=False):
        column = f"column {name!r}" if given.says(name) else f"a column made of {given.references}"
        if was_id != now_id:
            return (
                f"{column} since its first batch, but it is another column now, and rows that were delivered are "
                "judged by other values; restore the column's name, or start over"
            )
        if {was, now} == {"float", "double"} and (now == "float" or found.rounds(name)):
            return (
                f"{column} since its first batch, but it was a {was} and is a {now} now; no float equals the number "
                "that it is compared with; start over"
            )
    return None
