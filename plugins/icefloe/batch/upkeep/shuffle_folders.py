"""The shuffle folders of a storage: from files to their checkpoint, and the leftovers of its batches."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from icefloe.batch.context.batch_folder import MARKER, FolderMarker
from icefloe.batch.upkeep.leftover import BatchStates, Leftover, Reason
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.protocol import BatchState
from icefloe.errors import TerminalError
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleFolders:
    """The folders below ``shuffle/`` of a storage, judged by their checkpoints.

    Attributes:
        environ: resolves ``${ENV}`` in the URL of a checkpoint.
        cutoff: a time of the store's clock; earlier files are old.
        coordination: table that coordinates the storage; None: it needs none.
    """

    shuffle: Store
    storage_url: str
    open_place: OpenPlace
    environ: Mapping[str, str]
    cutoff: datetime
    coordination: str | None = None

    def find(self, folder: Folder) -> FoundCheckpoint:
        """The checkpoint of a folder, by the folder's marker, otherwise in the default place.

        `TerminalError` if there is none with the id of the folder, if its URL needs a variable that is not set, or if
        its records are in a table that was not given.
        """
        place = self.shuffle.child(folder.key)
        marker = FolderMarker.load(place)
        url = url_below(self.storage_url, "checkpoints", folder.pipeline)
        if marker is None:
            candidates = self._usual(url, folder.pipeline)
        else:
            url = self._named_url(marker, place)
            found = FoundCheckpoint(
                url=url,
                checkpoint=Checkpoint(self.open_place(url)),
                backfill_id=marker.backfill_id,
                pipeline=folder.pipeline,
                changes_url=marker.changes_url,
            )
            candidates = iter([found])
        for candidate in candidates:
            if _id_of(candidate.checkpoint) == folder.checkpoint_id:
                return candidate
        raise TerminalError(
            f"the files below {place.url} belong to checkpoint {folder.checkpoint_id} of pipeline {folder.pipeline}, "
            f"which is not at {url}: they are left alone; if it was moved, run the pipeline once; if it is gone for "
            "good, delete them",
            url=place.url,
        )

    def _named_url(self, marker: FolderMarker, folder: Store) -> str:
        """Its records must be in the table that is looked into."""
        named = str(expand(marker.coordination or "", self.environ)).removesuffix("/")
        if named not in ("", (self.coordination or "").removesuffix("/")):
            raise TerminalError(
                f"the files below {folder.url} are coordinated by {named}: they are left alone; sweep with "
                f"--coordination {named}",
                url=folder.url,
            )
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
                f"the records of the files below {folder.url} are in {marker.table}: they are left alone; sweep with "
                f"the dynamodb_region and dynamodb_endpoint of that table, not of {table}",
                url=folder.url,
            )
        return url

    def _usual(self, url: str, pipeline: str) -> Iterator[FoundCheckpoint]:
        store = self.open_place(url)
        checkpoint = Checkpoint(store)
        yield FoundCheckpoint(url=url, checkpoint=checkpoint, pipeline=pipeline)
        for backfill_id in sorted({each.key.split("/")[1] for each in store.list("backfills")}):
            found = checkpoint.backfill(backfill_id)
            yield FoundCheckpoint(url=found.url, checkpoint=found, backfill_id=backfill_id, pipeline=pipeline)

    def leftovers(self, folder: Folder, found: FoundCheckpoint, names: Mapping[str, Counted]) -> Iterator[Leftover]:
        """All files of ended batches, and old files of no batch. Look at the checkpoint after the files were listed.

        Args:
            names: the listed files, by name in the folder.
        """
        states, leftover = BatchStates.of(found.checkpoint), partial(self._leftover, folder, found)
        for name, counted in sorted(names.items()):
            number = None if counted.is_file else natural(name)
            state = BatchState.FREE if number is None else states.state(number)
            if state is BatchState.ENDED:
                yield leftover(name, counted, number)
            elif state is BatchState.FREE and name != MARKER and counted.old_objects:
                # A batch may be opened under the number at any moment.
                yield leftover(
                    name,
                    counted,
                    number,
                    is_due=lambda stored: stored.modified < self.cutoff,
                    is_opened=None if number is None else partial(states.is_opened_now, number),
                )
        # A backfill delivers one batch. Once it has ended, nobody looks for its checkpoint again. If it was abandoned,
        # its range may be started again, and then the record of its next batch brings the marker back.
        if found.backfill_id is not None and MARKER in names and states.has_ended:
            yield leftover(MARKER, names[MARKER], 0, is_opened=states.is_open_now)

    def _leftover(
        self,
        folder: Folder,
        found: FoundCheckpoint,
        name: str,
        counted: Counted,
        batch_number: int | None,
        *,
        is_due: Callable[[StoredObject], bool] | None = None,
        is_opened: Callable[[], bool] | None = None,
    ) -> Leftover:
        key = f"{folder.key}/{name}"
        return Leftover(
            store=self.shuffle,
            pipeline=folder.pipeline,
            backfill_id=found.backfill_id,
            batch_number=batch_number,
            reason=Reason.ENDED if is_due is None else Reason.OLD,
            objects=counted.objects if is_due is None else counted.old_objects,
            size_bytes=counted.size_bytes if is_due is None else counted.old_bytes,
            keys=(key,) if counted.is_file else (),
            folder=None if counted.is_file else key,
            is_due=is_due,
            is_opened=is_opened,
        )


def _id_of(checkpoint: Checkpoint) -> str | None:
    """Id of a checkpoint; None before the first batch."""
    owner = checkpoint.owner()
    return checkpoint.look().checkpoint_id if owner is None else owner.checkpoint_id
