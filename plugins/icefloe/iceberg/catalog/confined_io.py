"""A FileIO that opens a table's files in its allowed places only."""

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.table import Table

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import exact, file_io_properties, open_file_io
from icefloe.storage.store import one_store

__all__ = ["TableAccess", "refuse_elsewhere"]


_PLAIN_NAME: Final = re.compile(r"\w[\w.=-]*", re.ASCII)
"""A file name that every parser of URLs takes as it is."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_STRIPPED: Final = re.compile(r"^[\x00-\x20]|[\t\r\n]|[\x00-\x20]$")
"""Characters that parsers of URLs drop silently, so that two parsers read two different locations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A folder of a store, or all of a bucket."""

    scheme: str  # one for all names of a store; ``file`` for paths
    authority: str
    path: str = ""
    unlinked: int = 0  # number of last folders that a writer of the table can make, and that may be no links

    @classmethod
    def of(cls, location: str) -> Self | None:
        """The place of a location; None if PyIceberg's FileIOs may read the location in several ways.

        >>> FilePlace.of("s3a://lake/a/b/") == FilePlace.of("s3://lake/a/b")
        True
        >>> FilePlace.of("/data/t") == FilePlace.of("file:/data/t") == FilePlace.of("file:///data/x/../t")
        True
        >>> FilePlace.of("s3://lake/t/../../other/t") is None
        True
        """
        if not location or _STRIPPED.search(location):
            return None
        if not _URL.match(location):
            return cls(scheme="file", authority="", path=os.path.abspath(location).strip("/"))  # noqa: PTH100 - as FileIOs do
        try:
            url = urlsplit(location)
        except ValueError:
            return None
        scheme, authority = one_store(url.scheme, url.netloc)
        # The text after these characters is a part of the name to one FileIO and not to another.
        whole = location.partition(":")[2]
        path = whole.removeprefix("//").removeprefix(url.netloc) if whole.startswith("//") else whole
        has_dots = any(part in {".", ".."} for part in re.split(r"[/\\?#;]", whole))
        if scheme == "file":
            if authority or not path.startswith("/") or (has_dots and re.search(r"[?#;\\]", whole)):
                return None
            return cls(scheme=scheme, authority=authority, path=os.path.normpath(path).strip("/"))
        if has_dots or path[:1] not in {"", "/"}:
            return None
        return cls(scheme=scheme, authority=authority, path=path.strip("/"))

    @property
    def bucket(self) -> "FilePlace":
        """The whole bucket, container or server; locally the folder itself."""
        return self if self.scheme == "file" else FilePlace(scheme=self.scheme, authority=self.authority)

    @property
    def real(self) -> "FilePlace":
        """With this machine's links followed."""
        if self.scheme != "file":
            return self
        parts = self.path.split("/")
        end = len(parts) - self.unlinked
        followed = os.path.realpath(f"/{'/'.join(parts[:end])}")
        return replace(self, path="/".join([followed, *parts[end:]]).strip("/"), unlinked=0)

    def holds(self, other: "FilePlace") -> bool:
        is_below = not self.path or other.path == self.path or other.path.startswith(f"{self.path}/")
        return (self.scheme, self.authority) == (other.scheme, other.authority) and is_below

    def __str__(self) -> str:
        """As ``allowed_locations`` takes it."""
        return f"{self.scheme}://{self.authority}{'/' if self.path or self.scheme == 'file' else ''}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlaces:
    """The places in which files of one table may be read."""

    places: tuple[FilePlace, ...]

    @classmethod
    def of_table(
        cls, location: str, *, metadata_location: str, warehouse: str | None, allowed_locations: Iterable[str]
    ) -> Self:
        """The buckets (on local disk, folders) of table, metadata file and warehouse, and the allowed locations."""
        # The table's location counts only if its metadata file is right below it. The warehouse may be a mere name.
        #   table                  metadata file              may be read
        #   s3://lake/db/t         s3://lake/db/t/metadata    all of s3://lake: tables are moved inside of it
        #   file:///data/t         file:///data/t/metadata    file:///data/t
        #   file:///               file:///data/t/metadata    file:///data/t/metadata: the table claims a whole disk
        trusted = (_of_warehouse(warehouse), *_of_table(location, metadata_location))
        allowed = (place for place in map(FilePlace.of, allowed_locations) if place is not None)
        return cls(places=tuple(dict.fromkeys((*(each.bucket for each in trusted if each is not None), *allowed))))

    def real(self, location: str) -> FilePlace | None:
        """The place to read from, all links followed; None if it may not be read."""
        # A table has many files and few folders. Links may change at any time, so nothing is kept of them.
        folder, _, name = location.rpartition("/")
        above = _folder(folder) if _PLAIN_NAME.fullmatch(name) and folder.count("/") > 2 else None
        found = FilePlace.of(location) if above is None else replace(above, path=f"{above.path}/{name}".strip("/"))
        real = None if found is None else found.real
        return real if real is not None and any(place.real.holds(real) for place in self.places) else None


@lru_cache(maxsize=4096)
def _folder(location: str) -> FilePlace | None:
    return FilePlace.of(location)


def _of_table(location: str, metadata_location: str) -> Iterator[FilePlace | None]:
    claimed, metadata = FilePlace.of(location), FilePlace.of(metadata_location)
    folder = FilePlace.of(metadata_location.rpartition("/")[0]) if metadata is not None else None
    # The links above a table are its owner's. The table's folder and the folder of its metadata are its writer's.
    yield folder and replace(folder, unlinked=2 if folder.path.endswith("/metadata") else 1)
    if claimed is not None and claimed.scheme == "file":
        # The folder's name tells the table's location from one of its parents, such as the root of the disk.
        is_above = folder is not None and folder.scheme == "file" and folder.path == f"{claimed.path}/metadata"
        yield replace(claimed, unlinked=1) if is_above else None
    else:
        yield claimed


def _of_warehouse(warehouse: str | None) -> FilePlace | None:
    is_location = warehouse is not None and ("://" in warehouse or warehouse.startswith(("/", "file:/")))
    place = FilePlace.of(warehouse) if warehouse is not None and is_location else None
    # A whole local disk is not a warehouse.
    return None if place is not None and place.scheme == "file" and not place.path else place


_DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class ConfinedIO(FileIO):
    """Reads files in some places with another FileIO; refuses all others."""

    def __init__(self, opener: FileIO, places: FilePlaces, *, table: str) -> None:
        super().__init__(opener.properties)
        self.places = places
        self._opener = exact(opener)
        self._table = table

    def new_input(self, location: str) -> InputFile:
        """The opener of a file."""
        place = self.place(location)
        # With this property, a path is not one of this machine.
        if place.scheme != "file" or "DEFAULT_SCHEME" in self._opener.properties:
            return self._opener.new_input(location)
        return _LocalFile(location, Path(f"/{place.path}"), self._opener)

    def new_output(self, location: str) -> OutputFile:
        """Refused: icefloe only reads."""
        raise NotImplementedError(f"icefloe only reads tables, it does not write {location}")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refused: icefloe only reads."""
        raise NotImplementedError(f"icefloe only reads tables, it does not delete {location}")

    def place(self, location: str) -> FilePlace:
        """The place to read a file from; raises if it may not be read."""
        if (place := self.places.real(location)) is not None:
            return place
        found = FilePlace.of(location)
        real = str(found.real) if found is not None and found.real != found else ""
        file = f"{location} (links lead to {real})" if real else location
        places = ", ".join(map(str, self.places.places))
        raise TerminalError(
            f"table {self._table} names the file {file}, which is outside {places}: if it belongs to the "
            "table, move it or add its folder to allowed_locations of the pipeline file; if not, a writer of the table "
            "wants icefloe to read a foreign file"
        )


class _LocalFile(InputFile):
    """Opens a path without links; a link made since the check is not followed."""

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


def confine(table: Table, opener: FileIO, *, name: str, allowed_locations: Sequence[str]) -> ConfinedIO:
    places = FilePlaces.of_table(
        table.metadata.location,
        metadata_location=table.metadata_location,
        warehouse=table.catalog.properties.get("warehouse"),
        allowed_locations=allowed_locations,
    )
    io = ConfinedIO(opener, places, table=name)
    metadata_file = FilePlace.of(table.metadata_location)
    if metadata_file is not None and metadata_file.scheme == "file":
        io.place(table.metadata_location)
    return io


def refuse_elsewhere(io: FileIO, locations: Iterable[str]) -> None:
    """Raise before reading if a file may not be read; a caller's own FileIO opens any."""
    if isinstance(io, ConfinedIO):
        for location in locations:
            io.place(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """Access to the table's files. It travels to tasks inside closures only.

    Attributes:
        properties: of the FileIO. They hold secrets for files, but none of the catalog.
    """

    properties: Mapping[str, str] = field(repr=False)
    places: FilePlaces

    @classmethod
    def of(cls, table: Table) -> Self:
        """Access to a table that `load_table` returned."""
        io = table.io
        if not isinstance(io, ConfinedIO):
            raise TypeError(f"load_table gives tables whose FileIO is confined, not one of {type(io).__name__}")
        return cls(properties=file_io_properties(io.properties), places=io.places)

    def open(self, *, location: str, table: str) -> ConfinedIO:
        """The FileIO of the table at a location."""
        return ConfinedIO(open_file_io(self.properties, location), self.places, table=table)
