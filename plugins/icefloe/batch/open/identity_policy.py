"""The identity of rows: the columns that make two rows the same row."""

from collections.abc import Sequence
from typing import Final

from icefloe.checkpoint.batch_spec import Identity
from icefloe.errors import TerminalError, about_key
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.schemas.column_paths import IdentifierColumns
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import ChangesOption

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
    if pipeline.columns is None or not pipeline.delivers:
        return pipeline.columns
    with about_key("columns"):
        selected = schema.select(pipeline.columns).arrow
    return (*pipeline.columns, *IdentifierColumns.named(schema.columns, identity.columns).missing_in(selected))


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
