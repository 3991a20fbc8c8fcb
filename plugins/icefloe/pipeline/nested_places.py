"""Places that must not contain each other, because some processes delete all files that they find in their own."""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final
from urllib.parse import unquote

from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.url import one_store, url_below

__all__ = ["refuse_nested_places"]

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)


class NestedPlacesError(TerminalError):
    """One place of a pipeline is another, or inside it. Facts: ``key`` of the pipeline file, ``inner``, ``outer``."""

    inner: str
    outer: str


def refuse_nested_places(pipeline: Pipeline, table_location: str | None = None) -> None:
    """Compares shuffle folder, checkpoint, output, dead letters and the table's own files.

    Args:
        pipeline: with ``${ENV}`` expanded.
        table_location: None if the table is not known.

    Raises:
        NestedPlacesError: about the first two places of which one is inside the other.
    """
    places = [(*place, place_parts(place[2])) for place in _places(pipeline, table_location)]
    for (a, a_key, a_url, one), (b, b_key, b_url, other) in combinations(places, 2):
        if one[: len(other)] == other:
            raise _error(a, a_url, b, b_url, key=a_key or b_key)
        if other[: len(one)] == one:
            raise _error(b, b_url, a, a_url, key=b_key or a_key)


def place_parts(url: str) -> tuple[str, ...]:
    """A URL in parts that are equal for equal places: a place inside another begins with all parts of the other.

    >>> place_parts("S3A://Lake//a/./b/../c%20d/"), place_parts("abfss://box@account.dfs.core.windows.net/x")
    (('s3', 'Lake', 'a', 'c d'), ('abfs', 'box@account', 'x'))
    >>> place_parts("file://localhost/nowhere/a"), place_parts("/nowhere/a/")
    (('file', '', 'nowhere', 'a'), ('file', '', 'nowhere', 'a'))
    """
    match = _URL.fullmatch(url)
    written, host, path = ("file", "", url) if match is None else (match["scheme"], match["host"] or "", match["path"])
    scheme, authority = one_store(written, host)
    path = posixpath.normpath("/" + unquote(path, errors="surrogateescape").lstrip("/"))
    if scheme == "file":
        # A symbolic link leads to the same files by another name.
        return ("file", "", *_segments(os.path.realpath(path)))
    return (scheme, authority.partition(".")[0] if scheme == "abfs" else authority, *_segments(path))


def _places(pipeline: Pipeline, table_location: str | None) -> Iterator[tuple[str, str | None, str]]:
    """The name of each place, the key of the pipeline file that sets it, and its URL."""
    storage_key = "storage"
    places = (
        ("sink.path", "sink", pipeline.sink.path),
        _place_of_staged_batches(pipeline),
        ("sink.dead_letters.path", "sink", _dead_letters_url(pipeline)),
        ("the checkpoint", "checkpoint" if pipeline.checkpoint else storage_key, pipeline.checkpoint_url),
        ("the shuffle folder", storage_key, url_below(pipeline.storage, "shuffle")),
        (f"the location of table {pipeline.table}", None, table_location or ""),
    )
    return (place for place in places if place[2] and not place[2].startswith("dynamodb://"))


def _place_of_staged_batches(pipeline: Pipeline) -> tuple[str, str | None, str]:
    is_set = pipeline.changelog is not None and pipeline.changelog.path is not None
    url = pipeline.changes_folder.path if pipeline.delivers else ""
    return "the place of staged batches", "changelog" if is_set else "storage", url


def _dead_letters_url(pipeline: Pipeline) -> str:
    """The folder of dead letters; empty if there is none. A sink of another package may use the key for something."""
    letters = pipeline.sink.options.get("dead_letters")
    path = letters.get("path") if isinstance(letters, Mapping) else None
    return path if isinstance(path, str) else ""


def _segments(path: str) -> Iterator[str]:
    return (segment for segment in path.split("/") if segment)


def _error(inner: str, inner_url: str, outer: str, outer_url: str, *, key: str | None) -> NestedPlacesError:
    return NestedPlacesError(
        f"{inner}, {inner_url}, is inside {outer}, {outer_url}: clearing the one, by cleanup after a batch or "
        "Iceberg's removal of orphan files, would delete the other; give each a folder of its own, neither inside the "
        "other", key=key, inner=inner_url, outer=outer_url,
    )  # fmt: skip
