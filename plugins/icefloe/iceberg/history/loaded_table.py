"""A table as planning sees it: loaded once, with its history and with its metadata files, which are read once."""

from pyiceberg.table import Table

from icefloe.iceberg.catalog.file_io import exact
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.metadata_log import MetadataLog
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.table import table_name

__all__ = ["LoadedTable"]


class LoadedTable:
    """One version of a table's metadata, handed down through planning so that nothing is looked up or read twice.

    Args:
        table: as loaded; nothing is read yet.

    Attributes:
        name: namespace and name, dotted.
        metadata: as loaded; only this version counts.
        io: reads the table's files.
        history: snapshots, branches and tags of the metadata.
        log: earlier versions of the metadata; each file is read when it is asked for.
        manifests: reads manifest lists and manifests, and keeps the lists and the entries of delete manifests.
    """

    def __init__(self, table: Table) -> None:
        self.name = table_name(table)
        self.metadata = table.metadata
        self.io = exact(table.io)
        self.history = History.of(table)
        self.log = MetadataLog(table)
        self.manifests = ManifestReader(table)
