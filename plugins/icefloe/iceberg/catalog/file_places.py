"""Places of a table's files: metadata may name any location, and our credentials would follow it."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self
from urllib.parse import urlsplit

from icefloe.pipeline.url import one_store

__all__ = ["FilePlaces"]

_PLAIN_NAME: Final = re.compile(r"\w[\w.=-]*", re.ASCII)
"""A file name that every parser of URLs takes as it is."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LAID_OUT: Final = re.compile(r"(/([01]{4,8}|[^/]+=[^/]*))+\Z")
"""Folders that Iceberg makes inside a table's data: by a hash in binary digits, then by partition."""
_LOCALHOST: Final = re.compile(r"\Afile://localhost/", re.IGNORECASE)
_STRIPPED: Final = re.compile(r"^[\x00-\x20]|[\t\r\n]|[\x00-\x20]$")
"""Characters that parsers of URLs drop silently, so that two parsers read two different locations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A folder of a store, or all of a bucket.

    Attributes:
        scheme: one for all names of a store; ``file`` for paths.
        authority: the bucket, container and account, or server; empty for ``file``.
        path: without the first and the last slash.
    """

    scheme: str
    authority: str
    path: str = ""

    @classmethod
    def of(cls, location: str) -> Self | None:
        """The place that a location names; None if PyIceberg's FileIOs may read the location in several ways.

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
            return cls(scheme="file", authority="", path=_absolute(location).strip("/"))
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
        """The whole bucket, container or server; on a local file system the folder itself."""
        return self if self.scheme == "file" else FilePlace(scheme=self.scheme, authority=self.authority)

    def holds(self, other: "FilePlace") -> bool:
        """True if the other place is this one or below it."""
        is_below = not self.path or other.path == self.path or other.path.startswith(f"{self.path}/")
        return (self.scheme, self.authority) == (other.scheme, other.authority) and is_below

    def __str__(self) -> str:
        """The place in the form that ``allowed_locations`` takes."""
        return f"{self.scheme}://{self.authority}{'/' if self.path or self.scheme == 'file' else ''}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlaces:
    """The places in which files of one table may be read.

    Attributes:
        places: none of them below another.
    """

    places: tuple[FilePlace, ...]

    @classmethod
    def of_table(
        cls, location: str, *, metadata_location: str, warehouse: str | None, allowed_locations: Iterable[str]
    ) -> Self:
        """The buckets of the table, of its metadata file and of the warehouse, and the allowed locations.

        On a local disk, which has no buckets, the folders themselves count.

        A local location of the table counts if the metadata file that the catalog names is right below it. Otherwise a
        table could claim all of the reader's disk.

        Args:
            location: of the table, as its metadata says.
            metadata_location: of the metadata file, as the catalog says.
            warehouse: of the catalog; ignored if it is not a location, such as the warehouse name of a REST catalog.
            allowed_locations: the pipeline's setting.
        """
        #   table                  metadata file              may be read
        #   s3://lake/db/t         s3://lake/db/t/metadata    all of s3://lake: tables are moved inside of it
        #   file:///data/t         file:///data/t/metadata    file:///data/t
        #   file:///               file:///data/t/metadata    file:///data/t/metadata: the table claims a whole disk
        trusted = (*_of_table(location, metadata_location), _of_warehouse(warehouse))
        places = [place.bucket for place in trusted if place is not None]
        places += [place for place in map(FilePlace.of, allowed_locations) if place is not None]
        unique = tuple(dict.fromkeys(places))
        return cls(places=tuple(each for each in unique if not any(o != each and o.holds(each) for o in unique)))

    def hold(self, location: str) -> bool:
        """True if a file at that location may be read."""
        # A table has many files and few folders.
        folder, _, name = location.rpartition("/")
        is_below = _PLAIN_NAME.fullmatch(name) is not None and _hold(self.places, folder)
        return is_below or _hold(self.places, location)


def without_localhost(location: str) -> str:
    """A location without ``localhost``: PyIceberg's FileIOs take the host of a ``file:`` URL for a folder.

    >>> without_localhost("file://localhost/data/a.parquet"), without_localhost("s3://localhost/a")
    ('file:///data/a.parquet', 's3://localhost/a')
    """
    return _LOCALHOST.sub("file:///", location)


def folder_to_allow(location: str) -> str | None:
    """The folder that holds a file and others like it; None if there is none, or at the root of a disk.

    >>> folder_to_allow("s3a://archive/t/data/day=1/a.parquet"), folder_to_allow("/a.parquet")
    ('s3://archive/t/data', None)
    """
    folder, _, _ = location.rpartition("/")
    place = FilePlace.of(_LAID_OUT.sub("", folder)) if FilePlace.of(location) is not None else None
    return None if place is None or (place.scheme == "file" and not place.path) else str(place)


@lru_cache(maxsize=4096)
def _hold(places: tuple[FilePlace, ...], location: str) -> bool:
    found = FilePlace.of(location)
    return found is not None and any(place.holds(found) for place in places)


def _of_table(location: str, metadata_location: str) -> Iterator[FilePlace | None]:
    claimed, metadata = FilePlace.of(location), FilePlace.of(metadata_location)
    folder = FilePlace.of(metadata_location.rpartition("/")[0]) if metadata is not None else None
    yield folder
    if claimed is not None and claimed.scheme == "file":
        # The folder's name tells the table's location from one of its parents, such as the root of the disk.
        is_above = folder is not None and folder.scheme == "file" and folder.path == f"{claimed.path}/metadata"
        yield claimed if is_above else None
    else:
        yield claimed


def _absolute(path: str) -> str:
    # As PyArrow's FileIO does: links are not followed.
    return os.path.abspath(path)  # noqa: PTH100


def _of_warehouse(warehouse: str | None) -> FilePlace | None:
    is_location = warehouse is not None and ("://" in warehouse or warehouse.startswith(("/", "file:/")))
    place = FilePlace.of(warehouse) if warehouse is not None and is_location else None
    # A whole local disk is not a warehouse.
    return None if place is not None and place.scheme == "file" and not place.path else place
