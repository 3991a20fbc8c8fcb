"""Access to the files of a batch's table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from icefloe.batch.plan_document import Plan
from icefloe.iceberg.catalog.confined_io import ConfinedIO, FilePlaces
from icefloe.iceberg.catalog.file_io import file_io_properties, open_file_io
from icefloe.iceberg.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """Access to the table's files. It travels to tasks inside closures only.

    Attributes:
        properties: of the FileIO. They hold secrets for files, but none of the catalog.
    """

    properties: Mapping[str, str] = field(repr=False)
    places: FilePlaces

    @classmethod
    def of(cls, table: Table) -> Self:
        """Access to a table that `open_table` returned."""
        io = table.io
        if not isinstance(io, ConfinedIO):
            raise TypeError(f"open_table gives tables whose FileIO is confined, not one of {type(io).__name__}")
        return cls(properties=file_io_properties(io.properties), places=io.places)

    def open(self, plan: Plan) -> ConfinedIO:
        """The FileIO of a batch's table."""
        return ConfinedIO(open_file_io(self.properties, plan.table_location), self.places, table=plan.table)
