"""What opens the files of a batch's table."""

from collections.abc import Mapping

from icefloe.batch.credentials import Credentials
from icefloe.batch.document import Plan
from icefloe.iceberg.catalogs import load_table
from icefloe.iceberg.table import Table
from icefloe.pipeline.environment import expand

__all__ = ["io_properties", "open_table"]


def open_table(
    catalog: str | Mapping[str, str], table: str, *, credentials: Credentials, environ: Mapping[str, str]
) -> Table:
    """The table of a pipeline or a plan, by the credentials given, else by PyIceberg's own configuration.

    Args:
        catalog: a name or properties; ``${ENV}`` in them is expanded here.
        table: namespace and name.
        credentials: of the pipeline.
        environ: of this process.
    """
    return load_table(expand(catalog, environ), table, properties=credentials.catalog_properties or None)


def io_properties(plan: Plan, credentials: Credentials, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The properties of the table's FileIO, fresh from the catalog, vended credentials among them. Never stored."""
    return open_table(plan.catalog, plan.table, credentials=credentials, environ=environ).io.properties
