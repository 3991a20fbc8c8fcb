"""Whether two states of a table, of which none came from the other, have rows that can be told in one schema."""

from pyiceberg.schema import index_by_id
from pyiceberg.table import Table
from pyiceberg.types import IcebergType

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.covering_schema import covering_schema
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table_name import table_name

__all__ = ["require_comparable_states"]


def require_comparable_states(table: Table, start_snapshot_id: int, end_snapshot_id: int) -> None:
    """Passes two states whose columns of one field id have one type, or types of which one became the other.

    Schema evolution sees to that; ``CREATE OR REPLACE TABLE`` gives a column's field id to any column of the same name.

    Raises:
        TerminalError: naming the first column that cannot be told in both.
        NotBuiltError: a column of a type that this release cannot read.
    """
    start, end = (TableSchema.at(table.metadata, each).columns for each in (start_snapshot_id, end_snapshot_id))
    before = index_by_id(covering_schema(start, [end]))
    after = index_by_id(covering_schema(end, [start]))
    for field_id in before.keys() & after.keys():
        was, now = before[field_id].field_type, after[field_id].field_type
        if _kind(was) != _kind(now):
            raise TerminalError(
                f"table {table_name(table)} was replaced by one of another schema: column "
                f"{end.find_column_name(field_id)!r} is {now} at snapshot {end_snapshot_id} and was {was} at snapshot "
                f"{start_snapshot_id}, so the difference of the two cannot be told in one schema; give the pipeline "
                "another name and sink.path to start anew",
                table=table_name(table), start_snapshot_id=start_snapshot_id, end_snapshot_id=end_snapshot_id,
            )  # fmt: skip


def _kind(of: IcebergType) -> object:
    """What must be equal; the fields of nested types are compared one by one."""
    return of if of.is_primitive else type(of)
