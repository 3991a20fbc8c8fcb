"""The lineage of a batch for OpenLineage: the table that was read and the sink that was written."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

__all__ = ["phase_lineage"]


def phase_lineage(places: dict[str, str], *, is_delivering: bool) -> "OperatorLineage":
    """The ``OperatorLineage`` of a phase. Only OpenLineage's provider asks for it, so OpenLineage is installed.

    Args:
        places: ``table``, ``table_location`` and ``sink_path``.
        is_delivering: whether the phase writes to the sink.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import documentation_dataset

    namespace, name = dataset_name(places["table_location"])
    said = documentation_dataset.DocumentationDatasetFacet(description=f"Iceberg table {places['table']}")
    table = Dataset(namespace=namespace, name=name, facets={"documentation": said})
    namespace, name = dataset_name(places["sink_path"])
    sink = Dataset(namespace=namespace, name=name)
    return OperatorLineage(inputs=[table], outputs=[sink] if is_delivering else [])


def dataset_name(url: str) -> tuple[str, str]:
    """Namespace and name of the dataset at a URL, by OpenLineage's naming conventions.

    >>> dataset_name("s3a://lake/warehouse/nyc/flights/")
    ('s3://lake', 'warehouse/nyc/flights')
    >>> dataset_name("file:///var/lake/flights"), dataset_name("/var/lake/flights")
    (('file', '/var/lake/flights'), ('file', '/var/lake/flights'))
    """
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return "file", parts.path.rstrip("/")
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.strip("/") or "/"
