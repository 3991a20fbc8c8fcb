"""Places of a table's files: metadata may name any location, and our credentials would follow it."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
_STRIPPED: Final = re.compile(r"^[\x00-\x20]|[\t\r\n]|[\x00-\x20]$")
"""Characters that parsers of URLs drop silently, so that two parsers read two different locations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A folder of a store, or all of a bucket.

    Attributes:
        scheme: one for all names of a store; ``file`` for paths.
        authority: the bucket, container and account, or server; empty for ``file``.
        path: without the first and the last slash.
        unlinked: number of last folders of the path that may be no links, because a writer of the table can make them.
    """

    scheme: str
    authority: str
    path: str = ""
    unlinked: int = 0

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
        """The whole bucket, container or server; on a local file system the folder itself."""
        return self if self.scheme == "file" else FilePlace(scheme=self.scheme, authority=self.authority)

    @property
    def real(self) -> "FilePlace":
        """The place that this machine's links lead to; other stores have none."""
        if self.scheme != "file":
            return self
        parts = self.path.split("/")
        end = len(parts) - self.unlinked
        followed = os.path.realpath(f"/{'/'.join(parts[:end])}")
        return replace(self, path="/".join([followed, *parts[end:]]).strip("/"), unlinked=0)

    def holds(self, other: "FilePlace") -> bool:
        """True if the other place is this one or below it."""
        is_below = not self.path or other.path == self.path or other.path.startswith(f"{self.path}/")
        return (self.scheme, self.authority) == (other.scheme, other.authority) and is_below

    def covers(self, other: "FilePlace") -> bool:
        """True if the other place adds nothing to this one."""
        is_more = not other.holds(self) or self.unlinked < other.unlinked
        return self.holds(other) and is_more

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
        allowed = [place for place in map(FilePlace.of, allowed_locations) if place is not None]
        places = tuple(dict.fromkeys((*(place.bucket for place in trusted if place is not None), *allowed)))
        # An allowed folder may be a link that leads out of the place that it is in.
        linked = [place for place in allowed if place.scheme == "file"]
        return cls(places=tuple(e for e in places if e in linked or not any(other.covers(e) for other in places)))

    def real(self, location: str) -> FilePlace | None:
        """The place to read a file of that location from, with all links followed; None if it may not be read."""
        # A table has many files and few folders. Links may change at any time, so nothing is kept of them.
        folder, _, name = location.rpartition("/")
        above = _folder(folder) if _PLAIN_NAME.fullmatch(name) and folder.count("/") > 2 else None
        found = FilePlace.of(location) if above is None else replace(above, path=f"{above.path}/{name}".strip("/"))
        real = None if found is None else found.real
        return real if real is not None and any(place.real.holds(real) for place in self.places) else None


def folder_to_allow(location: str) -> str | None:
    """The folder that holds a file and others like it; None if there is none, or at the root of a disk.

    >>> folder_to_allow("s3a://archive/t/data/day=1/a.parquet"), folder_to_allow("/a.parquet")
    ('s3://archive/t/data', None)
    """
    folder, _, _ = location.rpartition("/")
    place = FilePlace.of(_LAID_OUT.sub("", folder)) if FilePlace.of(location) is not None else None
    return None if place is None or (place.scheme == "file" and not place.path) else str(place)


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
