"""Everything that may be deleted in a storage and at its sinks, also files there that no manifest names."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.leftover import BatchStates, Leftover, Reason
from icefloe.batch.upkeep.shuffle_folders import (
    CheckpointGoneError,
    Counted,
    Folder,
    ForgottenFiles,
    FoundCheckpoint,
    OpenPlace,
    ShuffleFolders,
    ShuffleListing,
    list_shuffle,
)
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.protocol import BatchState
from icefloe.checkpoint.record_store import backfill_prefix
from icefloe.errors import IcefloeError
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import MANIFEST, load_claim
from icefloe.storage.location import CLOCK_FOLDER, PROBE, StoreOpener, open_store, store_time
from icefloe.storage.options import COORDINATION
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store, StoredObject

__all__ = ["survey_storage"]

_KEY: Final = re.compile(
    rf"(_backfills/(?P<backfill_id>[^/]+)/)?(batch=(?P<batch>[0-9]+)/.+|{PROBE}[^/]*|{re.escape(CLOCK_FOLDER)}/.+)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFiles:
    """A pipeline's sink path, with the output of its backfills below it.

    Attributes:
        checkpoint: of the pipeline. Its backfills have theirs below it.
        cutoff: a time of this store's clock; earlier files are old.
        is_passed: True if batches are staged there: a cleanup may be killed while it deletes one.
    """

    store: Store
    checkpoint: Checkpoint
    pipeline: str
    cutoff: datetime
    is_passed: bool = False

    def leftovers(self) -> tuple[list[Leftover], list[str]]:
        """The files that may go, and a note for each place that is left alone."""
        outputs: defaultdict[str | None, defaultdict[int, list[StoredObject]]]
        outputs, trials = defaultdict(lambda: defaultdict(list)), []
        for stored in self.store.list(""):
            match = _KEY.fullmatch(stored.key)
            if match is not None and match["batch"] is not None:
                outputs[match["backfill_id"]][int(match["batch"])].append(stored)
            elif match is not None and stored.modified < self.cutoff:
                trials.append(stored)
        found = [self._leftover(trials, Reason.OLD)] if trials else []
        notes = []
        for backfill_id, batches in outputs.items():
            checkpoint = self.checkpoint if backfill_id is None else self.checkpoint.backfill(backfill_id)
            root = self.store if backfill_id is None else self.store.child(f"_backfills/{backfill_id}")
            if not _is_claimed_by(checkpoint, root):
                notes.append(f"{root.url} is not claimed by the checkpoint {checkpoint.url}: its files are left alone")
                continue
            states, sink = BatchStates.of(checkpoint), ChangeFiles(root)
            judge = partial(self._judge, backfill_id, states, sink)
            for leftover, note in map_parallel(judge, sorted(batches.items()), at_once=root.requests_at_once):
                found.extend(filter(None, [leftover]))
                notes.extend(filter(None, [note]))
        return found, notes

    def _judge(
        self,
        backfill_id: str | None,
        states: BatchStates,
        sink: ChangeFiles,
        batch: tuple[int, Sequence[StoredObject]],
    ) -> tuple[Leftover | None, str | None]:
        """The files that may go, and a note about files that stay although nobody names them."""
        number, files = batch
        state = states.state(number)
        has_manifest = any(each.key.endswith(f"/{MANIFEST}") for each in files)
        if state is BatchState.ENDED and not has_manifest:
            # It may have ended after the listing. Of a batch that has ended, no run makes a manifest any more.
            has_manifest = sink.whole(number) is not None
        if state is BatchState.ENDED and has_manifest:
            try:
                named = {MANIFEST, *sink.manifest(number).names}
            except KeyMissingError:
                if not self.is_passed:
                    raise
                # A cleanup deletes the batch at this moment.
                return None, None
            strays = [each for each in files if each.key.rpartition("/")[2] not in named]
            return (self._leftover(strays, Reason.UNNAMED, backfill_id, number) if strays else None), None
        old = [each for each in files if each.modified < self.cutoff]
        if state is BatchState.ENDED and self.is_passed:
            # A cleanup deletes the manifest first. A late task may write next to nothing, too.
            return (self._leftover(old, Reason.UNNAMED, backfill_id, number) if old else None), None
        if state is BatchState.ENDED:
            return None, f"batch {number} at {self.store.url} has ended, but has no manifest: its files are left alone"
        if state is BatchState.OPEN or has_manifest or not old:
            return None, None
        is_opened = partial(states.is_opened_now, number)
        return self._leftover(old, Reason.OLD, backfill_id, number, is_opened=is_opened), None

    def _leftover(
        self,
        files: Sequence[StoredObject],
        reason: Reason,
        backfill_id: str | None = None,
        batch_number: int | None = None,
        *,
        is_opened: Callable[[], bool] | None = None,
    ) -> Leftover:
        return Leftover(
            store=self.store,
            pipeline=self.pipeline,
            backfill_id=backfill_id,
            batch_number=batch_number,
            reason=reason,
            objects=len(files),
            size_bytes=sum(each.size_bytes for each in files),
            keys=tuple(each.key for each in files),
            is_opened=is_opened,
        )


def _is_claimed_by(checkpoint: Checkpoint, path: Store) -> bool:
    """Files of another checkpoint must not be judged by this one."""
    claim, owner = load_claim(path), checkpoint.owner()
    return claim is not None and owner is not None and claim.owner == owner.checkpoint_id


@dataclass(slots=True, kw_only=True)
class PlacesOfChanges:
    """Places of changes, each once, although backfills have checkpoints too."""

    storage_url: str
    age: timedelta
    open_place: OpenPlace
    open_sink_place: OpenPlace
    environ: Mapping[str, str]
    notes: list[str] = field(default_factory=list)
    _found: dict[tuple[str, str], SinkFiles] = field(default_factory=dict)

    def __iter__(self) -> Iterator[SinkFiles]:
        yield from self._found.values()

    def look(self, found: FoundCheckpoint) -> None:
        record = found.checkpoint.look().pipeline
        if record is not None and record.result_configuration.get("sink.type") == "files":
            path = self._expanded(found, "sink", str(record.result_configuration["sink.path"]))
            if path is not None:
                self._add(found, path, self.open_sink_place(path), is_passed=False)
        usual_url = url_below(self.storage_url, "staged", found.pipeline)
        path = self._expanded(found, "folder of changes", found.changes_url or usual_url)
        if path is not None:
            self._add(found, path, self.open_place(path), is_passed=True)

    def _expanded(self, found: FoundCheckpoint, what: str, written: str) -> str | None:
        path = str(expand(written, self.environ))
        if has_reference(path):
            self.notes.append(f"the {what} {path} of pipeline {found.pipeline} uses a variable that is not set here")
            return None
        return path

    def _add(self, found: FoundCheckpoint, path: str, store: Store, *, is_passed: bool) -> None:
        url = pipeline_url(found)
        if (path, url) not in self._found and next(iter(store.list("")), None) is not None:
            self._found[path, url] = SinkFiles(
                store=store,
                checkpoint=Checkpoint(self.open_place(url)),
                pipeline=found.pipeline,
                cutoff=store_time(store) - self.age,
                is_passed=is_passed,
            )


def pipeline_url(found: FoundCheckpoint) -> str:
    """URL of the pipeline's checkpoint; a backfill has its own below that."""
    return found.url if found.backfill_id is None else found.url.removesuffix(f"/{backfill_prefix(found.backfill_id)}")


_ROOMS: Final = {"checkpoints": "backfills", "staged": "_backfills"}
"""Folders of a storage with one folder for each pipeline, and the folder there with one for each backfill."""


def storage_folders(storage: Store) -> Iterator[str]:
    """The storage first. Only folder names lead to trials of pipelines that were killed before their first batch."""
    yield ""
    for room, backfills in _ROOMS.items():
        for pipeline in sorted(storage.folders(room)):
            yield pipeline
            yield from sorted(storage.folders(f"{pipeline}/{backfills}"))


def checkpoint_folders(checkpoint: Store) -> Iterator[str]:
    """The folders in which trials may lie: the checkpoint's own, and of each backfill."""
    yield ""
    yield from sorted(checkpoint.folders("backfills"))


def old_trials(
    place: Store, folders: Iterator[str], age: timedelta, *, known: Collection[str] = ()
) -> Iterator[Leftover]:
    """Trials older than ``age``; others may be under way. ``known`` are URLs that somebody else looks at."""
    trials = [
        stored
        for folder in folders
        if not any(f"{place.url}/{folder}/".startswith(f"{url}/") for url in known)
        for stored in place.list_here(folder)
        if stored.key.rpartition("/")[2].startswith(PROBE)
    ]
    if not trials:
        return
    cutoff = store_time(place) - age
    for stored in trials:
        if stored.modified < cutoff:
            yield trial_leftover(place, stored)


def trial_leftover(place: Store, trial: StoredObject) -> Leftover:
    return Leftover(
        store=place, pipeline=None, reason=Reason.OLD, objects=1, size_bytes=trial.size_bytes, keys=(trial.key,)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The result of a look at a storage.

    Attributes:
        leftovers: in the order of their deletion.
        problems: reasons why places could not be read; their files are left alone.
        places: stores in which writers may have died in the middle of a file.
    """

    leftovers: tuple[Leftover, ...] = ()
    problems: tuple[IcefloeError, ...] = ()
    notes: tuple[str, ...] = ()
    places: tuple[Store, ...] = ()

    def delete(self) -> tuple[int, tuple[IcefloeError, ...]]:
        """Deletes the leftovers; returns the number of files, and the errors. An error stops one leftover only."""
        deleted, problems = 0, _Problems()
        for leftover in self.leftovers:
            with problems.noted():
                deleted += leftover.delete()
        for place in self.places:
            with problems.noted():
                deleted += place.remove_unfinished()
        return deleted, tuple(problems.found)


def survey_storage(
    storage_url: str,
    *,
    older_than_seconds: float,
    takes_forgotten: bool = False,
    credentials: Credentials,
    environ: Mapping[str, str],
    open_store: StoreOpener = open_store,
) -> Survey:
    """Looks for files that nobody needs: below ``shuffle/`` and ``staged/`` of a storage, and at its pipelines' sinks.

    Nothing is deleted. An object is written for a moment, because only that shows the time of the store.

    Args:
        older_than_seconds: files of no known batch may go if they are older.
        takes_forgotten: True if the files of a lost checkpoint may go as well, once all of them are older.
        environ: resolves ``${ENV}`` in the URLs of checkpoints and sinks.
    """

    def open_place(url: str) -> Store:
        return open_store(url, options=credentials.storage_options)

    storage, shuffle = open_place(storage_url), open_place(url_below(storage_url, "shuffle"))
    age = timedelta(seconds=older_than_seconds)
    look = _Look(problems=_Problems())
    if next(iter(shuffle.list("")), None) is None:
        look.take_trials(storage, storage_folders(storage), age)
        look.notes.append(f"there are no files below {shuffle.url}")
        return look.survey(places=(storage,))
    cutoff = store_time(shuffle) - age
    folders = ShuffleFolders(
        shuffle=shuffle,
        storage_url=storage_url,
        open_place=open_place,
        environ=environ,
        cutoff=cutoff,
        coordination=credentials.storage_options.get(COORDINATION),
        takes_forgotten=takes_forgotten,
    )
    listing = list_shuffle(shuffle, cutoff)
    look.take_folders(folders, listing)
    # Sinks come first: once the shuffle folder of a backfill is gone, nothing leads to its checkpoint any more.
    sinks = PlacesOfChanges(
        storage_url=storage_url,
        age=age,
        open_place=open_place,
        open_sink_place=partial(open_store, options=credentials.sink_options),
        environ=environ,
        notes=look.notes,
    )
    for checkpoint in look.checkpoints.values():
        with look.problems.noted():
            sinks.look(checkpoint)
    at_sinks = [leftover for sink in sinks for leftover in look.take_sink(sink)]
    checkpoints = [open_place(url) for url in sorted({pipeline_url(found) for found in look.checkpoints.values()})]
    known = {place.url for place in (*checkpoints, *(sink.store for sink in sinks))}
    look.take_trials(storage, storage_folders(storage), age, known=known)
    for place in checkpoints:
        look.take_trials(place, checkpoint_folders(place), age)
    if listing.foreign_objects:
        look.notes.append(f"{listing.foreign_objects:,} files below {shuffle.url} are not icefloe's: left alone")
    look.leftovers[:0] = [*at_sinks, *(trial_leftover(shuffle, trial) for trial in listing.trials)]
    return look.survey(places=(storage, *checkpoints, *(sink.store for sink in sinks)))


@dataclass(slots=True)
class _Problems:
    """Collects errors, so that one unreadable place keeps no other from being swept."""

    found: list[IcefloeError] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        try:
            yield
        except IcefloeError as error:
            self.found.append(error)


@dataclass(slots=True)
class _Look:
    problems: _Problems
    leftovers: list[Leftover] = field(default_factory=list)
    checkpoints: dict[str, FoundCheckpoint] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take_folders(self, folders: ShuffleFolders, listing: ShuffleListing) -> None:
        gone: list[tuple[Folder, Mapping[str, Counted], CheckpointGoneError]] = []
        for folder, names in sorted(listing.folders.items(), key=lambda item: item[0].key):
            with self.problems.noted():
                try:
                    found = folders.find(folder)
                except CheckpointGoneError as error:
                    gone.append((folder, names, error))
                    continue
                self.checkpoints[found.url] = found
                self.leftovers.extend(folders.leftovers(folder, found, names))
        for folder, names, reason in gone:
            with self.problems.noted():
                moved = folders.moved_backfill(folder, tuple(self.checkpoints.values()))
                if moved is not None:
                    self.leftovers.extend(folders.leftovers(folder, moved, names))
                    continue
                if not folders.takes_forgotten:
                    raise reason
                forgotten = ForgottenFiles(folders=folders, folder=folder, names=names)
                self.leftovers.extend(forgotten.leftovers())
                self.notes.extend(forgotten.notes())

    def take_trials(self, place: Store, folders: Iterator[str], age: timedelta, *, known: Collection[str] = ()) -> None:
        with self.problems.noted():
            self.leftovers.extend(old_trials(place, folders, age, known=known))

    def take_sink(self, sink: SinkFiles) -> list[Leftover]:
        found: list[Leftover] = []
        with self.problems.noted():
            found, notes = sink.leftovers()
            self.notes.extend(notes)
        return found

    def survey(self, *, places: tuple[Store, ...]) -> Survey:
        return Survey(
            leftovers=tuple(self.leftovers),
            problems=tuple(self.problems.found),
            notes=tuple(self.notes),
            places=places,
        )
