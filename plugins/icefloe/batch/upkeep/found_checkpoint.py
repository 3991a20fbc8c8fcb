"""From the files of a checkpoint's batches to the checkpoint."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from icefloe.batch.context.batch_folder import FolderMarker
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TerminalError
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
from icefloe.storage.keys import join_url
from icefloe.storage.location import CLOCK_FOLDER, PROBE
from icefloe.storage.store import Store, StoredObject

_NAME: Final = r"(?P<pipeline>[A-Za-z0-9_-]+)"
_FILE: Final = re.compile(rf"{_NAME}/(?P<checkpoint_id>[0-9a-f]{{32}})/(?P<entry>[^/]+)(/.*)?", re.DOTALL)
_TRIAL: Final = re.compile(rf"{re.escape(CLOCK_FOLDER)}/.*|[^/]+/{PROBE}[^/]*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder below ``shuffle/`` with files of one checkpoint."""

    pipeline: str
    checkpoint_id: str

    @property
    def key(self) -> str:
        """The folder below ``shuffle/``."""
        return f"{self.pipeline}/{self.checkpoint_id}"


@dataclass(slots=True, kw_only=True)
class Counted:
    """The files under one name in a folder: a batch, or one file.

    Attributes:
        old_objects: written before the cutoff; ``old_bytes`` are their bytes.
    """

    objects: int = 0
    size_bytes: int = 0
    old_objects: int = 0
    old_bytes: int = 0
    is_file: bool = False

    def add(self, stored: StoredObject, cutoff: datetime, *, is_file: bool) -> None:
        """Counts one file."""
        is_old = stored.modified < cutoff
        self.objects += 1
        self.size_bytes += stored.size_bytes
        self.old_objects += is_old
        self.old_bytes += stored.size_bytes * is_old
        self.is_file = is_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleListing:
    """One listing, with a line for each batch: a dead batch may have millions of files.

    Attributes:
        folders: by name; the name of a batch is its number.
        trials: old files that tried the store or asked for its time.
        foreign_objects: number of files that icefloe does not make.
    """

    folders: Mapping[Folder, Mapping[str, Counted]]
    trials: tuple[StoredObject, ...]
    foreign_objects: int


def list_shuffle(shuffle: Store, cutoff: datetime) -> ShuffleListing:
    """Counts everything below ``shuffle/``. Files before ``cutoff``, by the store's clock, are old."""
    folders: defaultdict[Folder, dict[str, Counted]] = defaultdict(dict)
    trials, foreign_objects = [], 0
    for stored in shuffle.list(""):
        match = _FILE.fullmatch(stored.key)
        if match is not None:
            parts = match.groupdict()
            entry = parts.pop("entry")
            counted = folders[Folder(**parts)].setdefault(entry, Counted())
            counted.add(stored, cutoff, is_file=stored.key.endswith(f"/{entry}"))
        elif _TRIAL.fullmatch(stored.key) is None:
            foreign_objects += 1
        elif stored.modified < cutoff:
            trials.append(stored)
    return ShuffleListing(folders=folders, trials=tuple(trials), foreign_objects=foreign_objects)


OpenPlace: TypeAlias = Callable[[str], Store]
"""Opens the store at a URL, with the credentials of storage and checkpoint."""


class CheckpointGoneError(TerminalError):
    """No checkpoint is where the files of its batches say. Fact: ``url`` of the files."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """A checkpoint whose id was compared with that of the files.

    Attributes:
        backfill_id: None for the pipeline itself.
        changes_url: where its batches are staged, ``${ENV}`` unexpanded; None: the usual place.
    """

    url: str
    checkpoint: Checkpoint
    backfill_id: str | None = None
    pipeline: str
    changes_url: str | None = None


def find_checkpoint(
    folder: Folder,
    *,
    shuffle: Store,
    storage_url: str,
    open_place: OpenPlace,
    environ: Mapping[str, str],
    coordination: str | None = None,
) -> FoundCheckpoint:
    """The checkpoint of a folder, by the folder's marker, otherwise in the default place.

    Raises:
        CheckpointGoneError: there is none with the id of the folder.
        TerminalError: its URL needs a variable that is not set, or its records are in a table that was not given.
    """
    marker = FolderMarker.load(shuffle.child(folder.key))
    url = url_below(storage_url, "checkpoints", folder.pipeline)
    if marker is None:
        candidates = _usual(url, folder.pipeline, open_place)
    else:
        url = _named_url(marker, shuffle.child(folder.key), open_place, environ, coordination)
        found = FoundCheckpoint(
            url=url,
            checkpoint=Checkpoint(open_place(url)),
            backfill_id=marker.backfill_id,
            pipeline=folder.pipeline,
            changes_url=marker.changes_url,
        )
        candidates = iter([found])
    for candidate in candidates:
        if id_of(candidate.checkpoint) == folder.checkpoint_id:
            return candidate
    folder_url = join_url(shuffle.url, folder.key)
    raise CheckpointGoneError(
        f"the files below {folder_url} belong to checkpoint {folder.checkpoint_id} of pipeline {folder.pipeline}, "
        f"which is not at {url}: they are left alone; if it was moved, run the pipeline once; if it is gone for good, "
        "sweep with --forgotten",
        url=folder_url,
    )


def _named_url(
    marker: FolderMarker, folder: Store, open_place: OpenPlace, environ: Mapping[str, str], coordination: str | None
) -> str:
    """Its records must be in the table that is looked into."""
    named = None if marker.coordination is None else str(expand(marker.coordination, environ)).removesuffix("/")
    if named is not None and named != (coordination or "").removesuffix("/"):
        raise TerminalError(
            f"the files below {folder.url} are coordinated by {named}: they are left alone; sweep with --coordination "
            f"{named}",
            url=folder.url,
        )
    url = str(expand(marker.checkpoint_url, environ))
    if has_reference(url):
        raise TerminalError(
            f"the files below {folder.url} belong to a checkpoint at {url}, and that variable is not set here: they "
            f"are left alone; give the command the environment of the tasks of {marker.pipeline}",
            url=folder.url,
        )
    table = marker.table and (open_place(url) if url.startswith("dynamodb://") else folder).created_in
    if table != marker.table:
        raise TerminalError(
            f"the records of the files below {folder.url} are in {marker.table}: they are left alone; sweep with the "
            f"dynamodb_region and dynamodb_endpoint of that table, not of {table}",
            url=folder.url,
        )
    return url


def _usual(url: str, pipeline: str, open_place: OpenPlace) -> Iterator[FoundCheckpoint]:
    store = open_place(url)
    checkpoint = Checkpoint(store)
    yield FoundCheckpoint(url=url, checkpoint=checkpoint, pipeline=pipeline)
    for backfill_id in sorted({each.key.split("/")[1] for each in store.list("backfills")}):
        found = checkpoint.backfill(backfill_id)
        yield FoundCheckpoint(url=found.url, checkpoint=found, backfill_id=backfill_id, pipeline=pipeline)


def id_of(checkpoint: Checkpoint) -> str | None:
    """Id of a checkpoint; None before the first batch."""
    owner = checkpoint.owner()
    return checkpoint.look().checkpoint_id if owner is None else owner.checkpoint_id
