"""Which columns make two rows the same row."""

from collections.abc import Sequence

from icefloe.checkpoint.records import Identity
from icefloe.iceberg.identifier_columns import resolve_identifier_columns
from icefloe.iceberg.table_schema import TableSchema

__all__ = ["choose_identity"]


def choose_identity(identifier_columns: Sequence[str] | None, schema: TableSchema) -> Identity:
    """The identity of a pipeline or a read: the columns given, else the table's identifier fields, else none.

    Args:
        identifier_columns: dotted names; None where the caller gives none.
        schema: that rows are delivered in.

    Raises:
        TerminalError: a column does not exist, naming the nearest ones.
    """
    if identifier_columns:
        columns = tuple(identifier_columns)
        resolve_identifier_columns(schema.columns, columns)
        return Identity(policy="pipeline", columns=columns)
    if schema.identifier_columns:
        return Identity(policy="table", columns=tuple(schema.identifier_columns))
    return Identity(policy="none")
