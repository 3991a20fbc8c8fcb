"""Access to the files of a batch's table, fresh from the catalog."""

from collections.abc import Mapping

from icefloe.batch.context.references import BatchReference
from icefloe.batch.plan_document import Plan
from icefloe.batch.table_access import TableAccess
from icefloe.pipeline.environment import expand

__all__ = ["table_files"]


def table_files(plan: Plan, reference: BatchReference, environ: Mapping[str, str]) -> TableAccess:
    """Access to the table's files, with the credentials that the catalog vends. Never stored.

    Args:
        plan: plan of the batch.
        reference: its credentials open the catalog; its settings name the catalog and allow locations, so that a
            catalog that moved and a location that was added help an open batch.
        environ: environment of this process; ``${ENV}`` in catalog and locations is expanded here.
    """
    table = reference.surroundings.load_table(
        expand(reference.settings.catalog or plan.catalog, environ),
        plan.table,
        properties=reference.credentials.catalog_properties or None,
        allowed_locations=expand(list(reference.settings.allowed_locations), environ),
    )
    return TableAccess.of(table)
