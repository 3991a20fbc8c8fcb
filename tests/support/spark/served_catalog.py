"""The lab's catalog behind Iceberg's own handlers of a REST server, without the network between them."""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Table, TableIdentifier

from support.spark.spark_lab import SparkLab

__all__ = ["ServedCatalog"]


class ServedCatalog:
    """Answers what a sink asks a REST catalog. Java checks requirements and writes the metadata, as a server does."""

    def __init__(self, lab: SparkLab) -> None:
        self.name = lab.catalog.name
        self.load_table, self.create_table = lab.catalog.load_table, lab.catalog.create_table
        self.namespace_exists = lab.catalog.namespace_exists
        self._java = lab.spark._jvm.org.apache.iceberg
        self._catalog = self._java.spark.Spark3Util.loadIcebergCatalog(lab.spark._jsparkSession, self.name)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        namespace, name = table.name()[:-1], table.name()[-1]
        sent = CommitTableRequest(
            identifier=TableIdentifier(namespace=namespace, name=name), requirements=requirements, updates=updates
        )
        request = self._java.rest.requests.UpdateTableRequestParser.fromJson(sent.model_dump_json())
        identifier = self._java.catalog.TableIdentifier.parse(".".join(table.name()))
        try:
            answer = self._java.rest.CatalogHandlers.updateTable(self._catalog, identifier, request)
        except Py4JJavaError as cause:
            is_late = "CommitFailedException" in cause.java_exception.getClass().getName()
            raise (CommitFailedException if is_late else BadRequestError)(cause.java_exception.getMessage()) from None
        found = self.load_table(table.name())
        return CommitTableResponse(metadata=found.metadata, **{"metadata-location": answer.metadataLocation()})
