"""A table as planning sees it: loaded once, with its history and with its metadata files, which are read once."""

from dataclasses import dataclass
from typing import Self

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.metadata_log import MetadataLog
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.table import table_name

__all__ = ["LoadedTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """One version of a table's metadata, handed down through planning so that nothing is looked up or read twice.

    Attributes:
        name: namespace and name, dotted.
        metadata: as loaded; only this version counts.
        io: reads the table's files.
        history: snapshots, branches and tags of the metadata.
        log: earlier versions of the metadata; each file is read when it is asked for.
        manifests: reads manifest lists and manifests, and keeps the lists and the entries of delete manifests.
    """

    name: str
    metadata: TableMetadata
    io: FileIO
    history: History
    log: MetadataLog
    manifests: ManifestReader

    @classmethod
    def of(cls, table: Table) -> Self:
        """The table as it was loaded; reads nothing yet."""
        return cls(
            name=table_name(table),
            metadata=table.metadata,
            io=table.io,
            history=History.of(table),
            log=MetadataLog(table),
            manifests=ManifestReader(table),
        )
