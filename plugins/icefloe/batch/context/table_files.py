"""A pipeline's table, and access to its files, both fresh from the catalog."""

from collections.abc import Mapping, Sequence

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.surroundings import Surroundings
from icefloe.batch.credentials import Credentials
from icefloe.batch.plan_document import Plan
from icefloe.batch.table_access import TableAccess
from icefloe.iceberg.table import Table
from icefloe.pipeline.environment import expand

__all__ = ["open_table", "table_files"]


def open_table(
    catalog: str | Mapping[str, str],
    table: str,
    *,
    credentials: Credentials,
    environ: Mapping[str, str],
    allowed_locations: Sequence[str],
    surroundings: Surroundings | None = None,
) -> Table:
    """Opens the table of a pipeline or a plan by the given credentials, or by PyIceberg's own configuration.

    Args:
        catalog: a name or properties; ``${ENV}`` in them is expanded here.
        table: namespace and name.
        credentials: credentials of the pipeline.
        environ: environment of this process.
        allowed_locations: locations that may hold files, in addition to the places of the table and of its catalog;
            ``${ENV}`` in them is expanded here.
        surroundings: loads the table; None: from its catalog.
    """
    return (surroundings or Surroundings()).load_table(
        expand(catalog, environ),
        table,
        properties=credentials.catalog_properties or None,
        allowed_locations=expand(list(allowed_locations), environ),
    )


def table_files(plan: Plan, reference: BatchReference, environ: Mapping[str, str]) -> TableAccess:
    """Access to the table's files, with the credentials that the catalog vends. Never stored.

    Args:
        plan: plan of the batch.
        reference: its credentials open the catalog; its settings name the catalog and allow locations, so that a
            catalog that moved and a location that was added help an open batch.
        environ: environment of this process.
    """
    return TableAccess.of(
        open_table(
            reference.settings.catalog or plan.catalog,
            plan.table,
            credentials=reference.credentials,
            environ=environ,
            allowed_locations=reference.settings.allowed_locations,
            surroundings=reference.surroundings,
        )
    )
