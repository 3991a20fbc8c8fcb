"""The shuffle folders of a storage: from files to their checkpoint; batches that a lost checkpoint staged."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

from icefloe.batch.context.batch_folder import MARKER, FolderMarker
from icefloe.batch.upkeep.leftover import BatchStates, EndedMarker, Leftover, Reason
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.protocol import BatchState
from icefloe.errors import TerminalError
from icefloe.iceberg.history.pins import PinNames
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
from icefloe.sinks.manifest import CLAIM, load_claim
from icefloe.storage.keys import join_url
from icefloe.storage.location import CLOCK_FOLDER, PROBE
from icefloe.storage.store import Store, StoredObject
from icefloe.units import natural

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleFolders:
    """The folders below ``shuffle/`` of a storage, judged by their checkpoints.

    Attributes:
        environ: resolves ``${ENV}`` in the URL of a checkpoint.
        cutoff: a time of the store's clock; earlier files are old.
        coordination: table that coordinates the storage; None: it needs none.
        takes_forgotten: True if old files whose checkpoint is gone may go.
    """

    shuffle: Store
    storage_url: str
    open_place: OpenPlace
    environ: Mapping[str, str]
    cutoff: datetime
    coordination: str | None = None
    takes_forgotten: bool = False

    def find(self, folder: Folder) -> FoundCheckpoint:
        """The checkpoint of a folder; see `find_checkpoint`."""
        return find_checkpoint(
            folder,
            shuffle=self.shuffle,
            storage_url=self.storage_url,
            open_place=self.open_place,
            environ=self.environ,
            coordination=self.coordination,
        )

    def moved_backfill(self, folder: Folder, found: Iterable[FoundCheckpoint]) -> FoundCheckpoint | None:
        """The checkpoint of an ended backfill whose marker names the place from before a move."""
        marker = FolderMarker.load(self.shuffle.child(folder.key))
        for pipeline in found:
            if marker is not None and marker.backfill_id is not None and pipeline.backfill_id is None:
                checkpoint = pipeline.checkpoint.backfill(marker.backfill_id)
                if id_of(checkpoint) == folder.checkpoint_id:
                    return replace(pipeline, url=checkpoint.url, checkpoint=checkpoint, backfill_id=marker.backfill_id)
        return None

    def leftovers(self, folder: Folder, found: FoundCheckpoint, names: Mapping[str, Counted]) -> Iterator[Leftover]:
        """The leftovers in a folder. Look at the checkpoint after the files were listed.

        Args:
            names: the listed files, by name in the folder.
        """
        states = BatchStates.of(found.checkpoint)
        for name, counted in sorted(names.items()):
            number = None if counted.is_file else natural(name)
            state = BatchState.FREE if number is None else states.state(number)
            if state is BatchState.ENDED:
                yield self._all(folder, name, counted, number, found.backfill_id)
            elif state is BatchState.FREE and name != MARKER:
                yield from self._old(folder, name, counted, number, found.backfill_id, states)
        # A backfill delivers one batch. Once it has ended, nobody looks for its checkpoint again.
        if found.backfill_id is not None and MARKER in names and states.has_ended:
            yield EndedMarker(
                store=self.shuffle,
                pipeline=folder.pipeline,
                backfill_id=found.backfill_id,
                batch_number=0,
                reason=Reason.ENDED,
                objects=1,
                size_bytes=names[MARKER].size_bytes,
                keys=(f"{folder.key}/{MARKER}",),
                # If it was abandoned, its range may be started again while an operator looks at the findings.
                is_opened=states.is_open_now,
            )

    def _all(
        self, folder: Folder, name: str, counted: Counted, number: int | None, backfill_id: str | None
    ) -> Leftover:
        return Leftover(
            store=self.shuffle,
            pipeline=folder.pipeline,
            backfill_id=backfill_id,
            batch_number=number,
            reason=Reason.ENDED,
            objects=counted.objects,
            size_bytes=counted.size_bytes,
            **_place(folder, name, counted),
        )

    def _old(
        self,
        folder: Folder,
        name: str,
        counted: Counted,
        number: int | None,
        backfill_id: str | None,
        states: BatchStates | None,
    ) -> Iterator[Leftover]:
        """Old files of an unknown batch; a batch may be opened under the number at any moment."""
        if not counted.old_objects:
            return
        yield Leftover(
            store=self.shuffle,
            pipeline=folder.pipeline,
            backfill_id=backfill_id,
            batch_number=number,
            reason=Reason.OLD,
            objects=counted.old_objects,
            size_bytes=counted.old_bytes,
            is_due=self.is_old,
            is_opened=None if states is None or number is None else partial(states.is_opened_now, number),
            **_place(folder, name, counted),
        )

    def is_old(self, stored: StoredObject) -> bool:
        """True if a file was written before the cutoff."""
        return stored.modified < self.cutoff


def _place(folder: Folder, name: str, counted: Counted) -> dict[str, Any]:
    key = f"{folder.key}/{name}"
    return {"keys": (key,)} if counted.is_file else {"folder": key}


_BACKFILLS = "_backfills"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenFiles:
    """The files of one checkpoint that is gone, as they were listed."""

    folders: ShuffleFolders
    folder: Folder
    names: Mapping[str, Counted]

    def leftovers(self) -> Iterator[Leftover]:
        """All files if nothing was written since the cutoff, otherwise none.

        Staged changes of a backfill have a checkpoint of their own, and go with its shuffle folder.
        """
        marker = self._marker
        backfill_id = None if marker is None else marker.backfill_id
        staged = _Staged(
            store=self.folders.open_place(url_below(self.folders.storage_url, "staged")),
            key=self.folder.pipeline + ("" if backfill_id is None else f"/{_BACKFILLS}/{backfill_id}"),
            checkpoint_id=self.folder.checkpoint_id,
        )
        counted = Counted()
        if staged.is_claimed():
            for stored in filter(staged.has, staged.store.list(staged.key)):
                counted.add(stored, self.folders.cutoff, is_file=False)
        if any(each.old_objects < each.objects for each in (counted, *self.names.values())):
            return
        if counted.objects:
            yield Leftover(
                store=staged.store,
                pipeline=self.folder.pipeline,
                backfill_id=backfill_id,
                reason=Reason.FORGOTTEN,
                objects=counted.objects,
                size_bytes=counted.size_bytes,
                folder=staged.key,
                is_due=lambda stored: self.folders.is_old(stored) and staged.has(stored),
                is_opened=lambda: not staged.is_claimed(),
                # Without the claim nobody knows whose the rest is.
                last=f"{staged.key}/{CLAIM}",
            )
        # Last, because its name leads to the staged batches.
        yield Leftover(
            store=self.folders.shuffle,
            pipeline=self.folder.pipeline,
            backfill_id=backfill_id,
            reason=Reason.FORGOTTEN,
            objects=sum(each.objects for each in self.names.values()),
            size_bytes=sum(each.size_bytes for each in self.names.values()),
            folder=self.folder.key,
            is_due=self.folders.is_old,
            # Without its marker nobody knows where the checkpoint of the rest was.
            last=f"{self.folder.key}/{MARKER}",
        )

    def notes(self) -> Iterator[str]:
        """Things of the pipeline that a sweep leaves to people."""
        branch = PinNames.of(self.folder.pipeline, self.folder.checkpoint_id).branch
        yield (
            f"if pipeline {self.folder.pipeline} had pin: true, its table keeps snapshots by branch {branch} and tags "
            f"{branch}_...: drop them"
        )
        marker = self._marker
        if marker is not None and marker.changes_url is not None:
            yield (
                f"the changelog {marker.changes_url} of pipeline {self.folder.pipeline} stays: delete it if nobody "
                "reads it any more"
            )

    @property
    def _marker(self) -> FolderMarker | None:
        return FolderMarker.load(self.folders.shuffle.child(self.folder.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """Staged batches, below ``staged/``."""

    store: Store
    key: str
    checkpoint_id: str

    def is_claimed(self) -> bool:
        """True if the folder belongs to this checkpoint, not to one that was made again."""
        claim = load_claim(self.store.child(self.key))
        return claim is not None and claim.owner == self.checkpoint_id

    def has(self, stored: StoredObject) -> bool:
        return not stored.key.startswith(f"{self.key}/{_BACKFILLS}/")
