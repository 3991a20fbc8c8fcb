"""Files that nobody needs any more: those below ``shuffle/``, judged by their checkpoints, and their deletion."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Self, TypeAlias

from icefloe.batch.context.batch_folder import MARKER, FolderMarker
from icefloe.checkpoint.log import Checkpoint, CheckpointView
from icefloe.checkpoint.protocol import BatchState
from icefloe.errors import TerminalError
from icefloe.pipeline.environment import expand, has_reference
from icefloe.storage.location import TRIALS
from icefloe.storage.store import Store, StoredObject, join_url
from icefloe.units import natural

__all__ = ["Leftover"]

_NAME: Final = r"(?P<pipeline>[A-Za-z0-9_-]+)"
_FILE: Final = re.compile(rf"{_NAME}/(?P<checkpoint_id>[0-9a-f]{{32}})/(?P<entry>[^/]+)(/.*)?", re.DOTALL)
_TRIAL: Final = re.compile(rf"([^/]+/)?({TRIALS})", re.DOTALL)


class Reason(StrEnum):
    """Why files may go."""

    ENDED = "the batch has ended"
    UNNAMED = "no manifest names them"
    OLD = "old, of no batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Files that may be deleted: some keys, or a folder.

    Attributes:
        pipeline: None if the files do not say.
        batch_number: None if the files are of no batch.
        objects: number of the files in the survey; ``size_bytes`` are their bytes.
        keys: single files.
        folder: a key taken as a folder, which is listed again for the deletion; None: only the keys.
        cutoff: files of the folder that were written later stay; None: all go.
        unless_opened_in: the checkpoint in which the batch must still be free right before the deletion; None: the
            batch has ended, or there is none.
    """

    store: Store
    pipeline: str | None = None
    backfill_id: str | None = None
    batch_number: int | None = None
    reason: Reason
    objects: int
    size_bytes: int
    keys: tuple[str, ...] = ()
    folder: str | None = None
    cutoff: datetime | None = None
    unless_opened_in: Checkpoint | None = None

    @classmethod
    def of_files(
        cls,
        store: Store,
        files: Sequence[StoredObject],
        reason: Reason,
        *,
        pipeline: str | None = None,
        backfill_id: str | None = None,
        batch_number: int | None = None,
        unless_opened_in: Checkpoint | None = None,
    ) -> Self:
        """Single files."""
        return cls(
            store=store,
            pipeline=pipeline,
            backfill_id=backfill_id,
            batch_number=batch_number,
            reason=reason,
            objects=len(files),
            size_bytes=sum(each.size_bytes for each in files),
            keys=tuple(each.key for each in files),
            unless_opened_in=unless_opened_in,
        )

    @property
    def url(self) -> str:
        """URL of the folder, or of the first file."""
        return join_url(self.store.url, self.folder or self.keys[0])

    def delete(self) -> int:
        """Deletes the files that are still there; returns their number. After an error the next sweep goes on."""
        # A batch that was opened since the survey may have ended already: its files are its own all the same.
        if self.unless_opened_in is not None and self.batch_number is not None:
            state = self.unless_opened_in.look().state_of(self.batch_number)
            if state is not BatchState.FREE:
                return 0
        listed = () if self.folder is None else self.store.list(self.folder)
        keys = [*self.keys, *(each.key for each in listed if self.cutoff is None or each.modified < self.cutoff)]
        self.store.delete(keys)
        unfinished = 0
        if self.folder is not None and self.reason is Reason.ENDED:
            # A listing does not show what a killed writer began, and of an ended batch nobody writes any more.
            unfinished = self.store.remove_unfinished(self.folder, is_over=True)
        return len(keys) + unfinished


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
    """The files under one name in a folder: a batch, or one file."""

    objects: int = 0
    size_bytes: int = 0
    old_objects: int = 0  # written before the cutoff
    old_bytes: int = 0  # of the old objects
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
    """One listing, with a line for each batch: a dead batch may have millions of files."""

    folders: Mapping[Folder, Mapping[str, Counted]]  # by name; the name of a batch is its number
    trials: tuple[StoredObject, ...]  # old files that tried the store or asked for its time
    foreign_objects: int  # number of files that icefloe does not make


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """A checkpoint with the id of its files."""

    url: str
    checkpoint: Checkpoint
    # As it was after the listing. Batches are recorded before their files: it lacks only batches begun since.
    view: CheckpointView
    marker: FolderMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleFolders:
    """The folders below ``shuffle/`` of a storage, judged by their checkpoints."""

    shuffle: Store
    open_place: OpenPlace
    environ: Mapping[str, str]  # resolves ``${ENV}`` in the URL of a checkpoint
    cutoff: datetime  # a time of the store's clock; earlier files are old

    def find(self, folder: Folder) -> FoundCheckpoint:
        """The checkpoint that the folder's marker names; `TerminalError` if that is another one, or out of reach."""
        place = self.shuffle.child(folder.key)
        marker, where = FolderMarker.load(place), "which no marker names"
        if marker is not None:
            url = self._named_url(marker, place)
            checkpoint, where = Checkpoint(self.open_place(url)), f"which is not at {url}"
            view = checkpoint.look()
            if view.checkpoint_id == folder.checkpoint_id:
                return FoundCheckpoint(url=url, checkpoint=checkpoint, view=view, marker=marker)
        raise TerminalError(
            f"the files below {place.url} belong to checkpoint {folder.checkpoint_id} of pipeline {folder.pipeline}, "
            f"{where}: they are left alone; if it was moved, run the pipeline once; if it is gone for good, delete "
            "them",
            url=place.url,
        )

    def _named_url(self, marker: FolderMarker, folder: Store) -> str:
        """Its records must be in the table that is looked into."""
        url = str(expand(marker.checkpoint_url, self.environ))
        if has_reference(url):
            raise TerminalError(
                f"the files below {folder.url} belong to a checkpoint at {url}, and that variable is not set here: "
                f"they are left alone; give the command the environment of the tasks of {marker.pipeline}",
                url=folder.url,
            )
        table = marker.table and (self.open_place(url) if url.startswith("dynamodb://") else folder).created_in
        if table != marker.table:
            raise TerminalError(
                f"the records of the files below {folder.url} are in {marker.table}, not in {table or 'the storage'}: "
                "they are left alone; sweep with --coordination, dynamodb_region and dynamodb_endpoint of that table",
                url=folder.url,
            )
        return url

    def leftovers(self, folder: Folder, found: FoundCheckpoint, names: Mapping[str, Counted]) -> Iterator[Leftover]:
        """All listed files of ended batches, and old files of no batch. The marker stays."""
        for name, counted in sorted(names.items()):
            number = None if counted.is_file else natural(name)
            state = BatchState.FREE if number is None else found.view.state_of(number)
            is_old = state is BatchState.FREE and name != MARKER and counted.old_objects > 0
            if is_old or state is BatchState.ENDED:
                key = f"{folder.key}/{name}"
                yield Leftover(
                    store=self.shuffle,
                    pipeline=folder.pipeline,
                    backfill_id=found.marker.backfill_id,
                    batch_number=number,
                    reason=Reason.OLD if is_old else Reason.ENDED,
                    objects=counted.old_objects if is_old else counted.objects,
                    size_bytes=counted.old_bytes if is_old else counted.size_bytes,
                    keys=(key,) if counted.is_file else (),
                    folder=None if counted.is_file else key,
                    cutoff=self.cutoff if is_old else None,
                    unless_opened_in=found.checkpoint if is_old else None,
                )
