"""A FileIO that opens a table's files in its allowed places only; no request goes anywhere else."""

import json
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.table import Table

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import exact
from icefloe.iceberg.catalog.file_places import FilePlace, FilePlaces, folder_to_allow
from icefloe.iceberg.table import table_name
from icefloe.pipeline.url import location_fault

__all__ = ["ConfinedIO", "refuse_elsewhere"]


_DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


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
        place = self._place(location)
        # With this property, a path is not one of this machine.
        if place.scheme != "file" or "DEFAULT_SCHEME" in self._opener.properties:
            return self._opener.new_input(location)
        return _LocalFile(location, Path(f"/{place.path}"), self._opener)

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
        self._place(location)

    def _place(self, location: str) -> FilePlace:
        """The place to read a file from, which no link leads out of the allowed places."""
        if (place := self.places.real(location)) is not None:
            return place
        found = FilePlace.of(location)
        real = str(found.real) if found is not None and found.real != found else ""
        file = f"{location} (links lead to {real})" if real else location
        places = ", ".join(map(str, self.places.places))
        raise FileElsewhereError(
            f"table {self._table} names the file {file}, which is outside {places}: if it belongs to the "
            f"table, {self._way_out(real or location)}; if not, a writer of the table wants icefloe to read a foreign "
            "file",
            path=location, table=self._table,
        )  # fmt: skip

    def _way_out(self, location: str) -> str:
        folder = folder_to_allow(location)
        if folder is None or location_fault(folder) is not None:
            return "move it, because it is in no folder that can be allowed, like one with . or .. in its path"
        # JSON is valid YAML.
        line = json.dumps([*self.allowed_locations, folder], ensure_ascii=False)
        return f"write allowed_locations: {line} in the pipeline file"


class _LocalFile(InputFile):
    """A file of this machine, at a path without links. A link that came since the path was checked is not followed."""

    def __init__(self, location: str, path: Path, opener: FileIO) -> None:
        super().__init__(location)
        self._path = path
        self._opener = opener

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        return self._path.exists()

    def open(self, seekable: bool = True) -> InputStream:
        held = os.open("/", _FOLDER)
        try:
            for part, flags in [(part, _FOLDER) for part in self._path.parts[1:-1]] + [(self._path.name, _FILE)]:
                folder, held = held, os.open(part, flags, dir_fd=held)
                os.close(folder)
            if not stat.S_ISREG(os.fstat(held).st_mode):
                raise OSError(f"{self._path} is not a file")
            return self._opener.new_input(f"file://{_DESCRIPTORS}/{held}").open(seekable)
        finally:
            os.close(held)


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
    io = ConfinedIO(opener, places, table=table_name(table), allowed_locations=allowed_locations)
    metadata_file = FilePlace.of(table.metadata_location)
    if metadata_file is not None and metadata_file.scheme == "file":
        io.refuse_elsewhere(table.metadata_location)
    return io


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
