"""A table as planning sees it: loaded once, with its history and with its metadata files, which are read once."""

from contextlib import suppress
from dataclasses import asdict

from pyiceberg.table import Table

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import exact
from icefloe.iceberg.catalog.metadata_errors import reading_metadata
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.metadata_log import MetadataLog
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.recorded_snapshot import RecordedSnapshot
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
        self._table = table
        self.name = table_name(table)
        self.metadata = table.metadata
        self.io = exact(table.io)
        self.history = History.of(table)
        self.log = MetadataLog(table)
        self.manifests = ManifestReader(table)

    def found(self, recorded: RecordedSnapshot) -> tuple[Table, int]:
        """The table, and the id that a recorded snapshot has in it.

        If its writer has used the id for another snapshot, the recorded one has a negative id, as a rule that number.
        It is a snapshot of the table that is returned as long as its manifest list can be read. Otherwise it counts as
        expired.

        Raises:
            TransientError: the store did not answer.
        """
        table, snapshot_id, path = self._table, recorded.snapshot_id, recorded.manifest_list
        found = self.metadata.snapshot_by_id(snapshot_id)
        if found is None or recorded.is_same(found):
            return table, snapshot_id
        is_there, own_id = False, -snapshot_id
        # An id may have been used more than twice.
        while (earlier := self.metadata.snapshot_by_id(own_id)) is not None:
            if recorded.is_same(earlier):
                return table, own_id
            own_id -= 1
        if path != found.manifest_list:
            # A file that may not be read is as good as gone.
            with suppress(TerminalError), reading_metadata(self.name, f"manifest list of snapshot {snapshot_id}", path):
                is_there = self.io.new_input(path).exists()
        if is_there:
            left = found.model_copy(update=asdict(recorded) | {"snapshot_id": own_id, "summary": None})
            metadata = self.metadata.model_copy(update={"snapshots": [*self.metadata.snapshots, left]})
            table = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)
        return table, own_id
