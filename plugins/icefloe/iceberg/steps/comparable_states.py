"""The check that two states of a table, neither of which came from the other, have rows that fit one schema."""

from pyiceberg.schema import index_by_id
from pyiceberg.table import Table
from pyiceberg.types import IcebergType

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.covering_schema import covering_schema
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import table_name


def require_comparable_states(table: Table, start_snapshot_id: int, end_snapshot_id: int) -> None:
    """Raise unless the columns with the same field id have the same type in both states, or one type was promoted.

    Schema evolution ensures that. ``CREATE OR REPLACE TABLE`` gives a column's field id to any column of the same name.

    Raises:
        TerminalError: the types of a column differ; the error names the first such column.
        NotBuiltError: this release cannot read the type of a column.
    """
    start, end = (TableSchema.at(table.metadata, each).columns for each in (start_snapshot_id, end_snapshot_id))
    before = index_by_id(covering_schema(start, [end]))
    after = index_by_id(covering_schema(end, [start]))
    for field_id in before.keys() & after.keys():
        was, now = before[field_id].field_type, after[field_id].field_type
        if _kind(was) != _kind(now):
            raise TerminalError(
                f"table {table_name(table)} was replaced by one with another schema: column "
                f"{end.find_column_name(field_id)!r} is {now} at snapshot {end_snapshot_id} and was {was} at snapshot "
                f"{start_snapshot_id}, so no schema fits both states; give the pipeline another name and sink.path to "
                "start over",
                table=table_name(table), start_snapshot_id=start_snapshot_id, end_snapshot_id=end_snapshot_id,
            )  # fmt: skip


def _kind(of: IcebergType) -> object:
    """The part of a type that must be equal; the fields of nested types are compared one by one."""
    return of if of.is_primitive else type(of)
