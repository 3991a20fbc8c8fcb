"""Access to the files of a batch's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from icefloe.batch.credentials import Credentials
from icefloe.batch.plan_document import Plan
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.catalog.confined_io import ConfinedIO
from icefloe.iceberg.catalog.file_io import open_file_io
from icefloe.iceberg.catalog.file_io_properties import file_io_properties
from icefloe.iceberg.catalog.file_places import FilePlaces
from icefloe.iceberg.table import Table
from icefloe.pipeline.environment import expand

__all__ = ["TableAccess", "open_table", "table_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """Access that lets tasks open the files of the table. It travels to them inside closures only.

    Attributes:
        properties: properties of the FileIO. They hold secrets for files, but none of the catalog.
        places: places that may hold files.
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


def open_table(
    catalog: str | Mapping[str, str],
    table: str,
    *,
    credentials: Credentials,
    environ: Mapping[str, str],
    allowed_locations: Sequence[str],
) -> Table:
    """Opens the table of a pipeline or a plan by the given credentials, or by PyIceberg's own configuration.

    Args:
        catalog: a name or properties; ``${ENV}`` in them is expanded here.
        table: namespace and name.
        credentials: credentials of the pipeline.
        environ: environment of this process.
        allowed_locations: locations that may hold files, in addition to the places of the table and of its catalog;
            ``${ENV}`` in them is expanded here.
    """
    return load_table(
        expand(catalog, environ),
        table,
        properties=credentials.catalog_properties or None,
        allowed_locations=expand(list(allowed_locations), environ),
    )


def table_files(
    plan: Plan, credentials: Credentials, environ: Mapping[str, str], *, allowed_locations: Sequence[str]
) -> TableAccess:
    """Access to the table's files, fresh from the catalog, with the credentials that it vends. Never stored.

    Args:
        plan: plan of the batch.
        credentials: credentials of the pipeline.
        environ: environment of this process.
        allowed_locations: locations that the pipeline allows now, so that adding one helps a batch that is open.
    """
    table = open_table(
        plan.catalog, plan.table,
        credentials=credentials, environ=environ, allowed_locations=allowed_locations,
    )  # fmt: skip
    return TableAccess.of(table)
