"""The lineage of a batch for OpenLineage: the table that was read and the sink that was written."""

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

__all__ = ["PhasePlaces", "phase_lineage"]


class PhasePlaces(NamedTuple):
    """The places of a phase.

    Attributes:
        table: name of the table, for people.
        table_location: URL of the table.
        sink_url: URL of the place where the phase made changes arrive; None: it made none arrive.
    """

    table: str
    table_location: str
    sink_url: str | None


def phase_lineage(places: PhasePlaces) -> "OperatorLineage":
    """The ``OperatorLineage`` of a phase. Only OpenLineage's provider asks for it, so OpenLineage is installed."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import documentation_dataset

    said = documentation_dataset.DocumentationDatasetFacet(description=f"Iceberg table {places.table}")
    namespace, name = dataset_name(places.table_location)
    read = Dataset(namespace=namespace, name=name, facets={"documentation": said})
    if places.sink_url is None:
        return OperatorLineage(inputs=[read], outputs=[])
    namespace, name = dataset_name(places.sink_url)
    return OperatorLineage(inputs=[read], outputs=[Dataset(namespace=namespace, name=name)])


def dataset_name(url: str) -> tuple[str, str]:
    """Namespace and name of the dataset at a URL, by OpenLineage's naming conventions.

    >>> dataset_name("s3a://lake/warehouse/nyc/flights/")
    ('s3://lake', 'warehouse/nyc/flights')
    >>> dataset_name("https://search:9200/flights"), dataset_name("kafka://broker:9092/flights")
    (('https://search:9200', 'flights'), ('kafka://broker:9092', 'flights'))
    >>> dataset_name("file:///var/lake/flights"), dataset_name("/var/lake/flights")
    (('file', '/var/lake/flights'), ('file', '/var/lake/flights'))
    """
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return "file", parts.path.rstrip("/")
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.strip("/") or "/"
