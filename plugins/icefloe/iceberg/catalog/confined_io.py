"""A FileIO that opens a table's files in its allowed places only; no request goes anywhere else."""

import json
from collections.abc import Iterable, Sequence

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import exact
from icefloe.iceberg.catalog.file_places import FilePlaces, folder_to_allow, without_localhost
from icefloe.iceberg.table import table_name
from icefloe.pipeline.url import location_fault

__all__ = ["ConfinedIO", "refuse_elsewhere"]


class FileElsewhereError(TerminalError):
    """A table names a file outside of its allowed places."""

    path: str
    table: str


class ConfinedIO(FileIO):
    """Reads files in some places with another FileIO, and refuses all other files.

    Args:
        opener: opens the files.
        places: the places in which files may be opened.
        table: for the error.
        allowed_locations: the pipeline's setting; they are among the places.
    """

    def __init__(
        self, opener: FileIO, places: FilePlaces, *, table: str, allowed_locations: Sequence[str] = ()
    ) -> None:
        super().__init__(opener.properties)
        self.places = places
        self.allowed_locations = tuple(allowed_locations)
        self._opener = exact(opener)
        self._table = table

    def new_input(self, location: str) -> InputFile:
        """The opener of a file.

        Raises:
            FileElsewhereError: the file is in none of the places.
        """
        self.refuse_elsewhere(location)
        return self._opener.new_input(without_localhost(location))

    def new_output(self, location: str) -> OutputFile:
        """Refused: icefloe only reads tables."""
        raise NotImplementedError(f"icefloe only reads tables, it does not write {location}")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refused: icefloe only reads tables."""
        raise NotImplementedError(f"icefloe only reads tables, it does not delete {location}")

    def refuse_elsewhere(self, location: str) -> None:
        """Raise if a file may not be read.

        Raises:
            FileElsewhereError: with the file and the places.
        """
        if not self.places.hold(location):
            places = ", ".join(map(str, self.places.places))
            raise FileElsewhereError(
                f"table {self._table} names the file {location}, which is outside {places}: if it belongs to the "
                f"table, {self._way_out(location)}; if not, a writer of the table wants icefloe to read a foreign file",
                path=location, table=self._table,
            )  # fmt: skip

    def _way_out(self, location: str) -> str:
        folder = folder_to_allow(location)
        if folder is None or location_fault(folder) is not None:
            return "move it, because it is in no folder that can be allowed, like one with . or .. in its path"
        # JSON is valid YAML.
        line = json.dumps([*self.allowed_locations, folder], ensure_ascii=False)
        return f"write allowed_locations: {line} in the pipeline file"


def confine(table: Table, opener: FileIO, *, allowed_locations: Sequence[str]) -> ConfinedIO:
    """The FileIO of a table that a catalog has loaded; it opens files only in the table's allowed places.

    Args:
        table: as loaded.
        opener: opens the files.
        allowed_locations: the pipeline's setting, in addition to the places of the table and of its catalog.
    """
    places = FilePlaces.of_table(
        table.metadata.location,
        metadata_location=table.metadata_location,
        warehouse=table.catalog.properties.get("warehouse"),
        allowed_locations=allowed_locations,
    )
    return ConfinedIO(opener, places, table=table_name(table), allowed_locations=allowed_locations)


def allowed_locations_of(io: FileIO) -> Sequence[str]:
    """The allowed locations that a FileIO was confined with; none if it was not confined."""
    return io.allowed_locations if isinstance(io, ConfinedIO) else ()


def refuse_elsewhere(io: FileIO, locations: Iterable[str]) -> None:
    """Raise before anything is read if a file may not be read; a FileIO of the caller's own opens any file.

    Raises:
        FileElsewhereError: a file is outside of the places in which files may be read.
    """
    if isinstance(io, ConfinedIO):
        for location in locations:
            io.refuse_elsewhere(location)
