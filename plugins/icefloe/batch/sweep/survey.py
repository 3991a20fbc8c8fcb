"""Everything that may be deleted in a storage and at its sinks, and why the rest is left alone."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from icefloe.batch.credentials import Credentials
from icefloe.batch.sweep.forgotten_files import ForgottenFiles
from icefloe.batch.sweep.found_checkpoint import CheckpointGoneError, FoundCheckpoint
from icefloe.batch.sweep.leftover import Leftover
from icefloe.batch.sweep.places_of_changes import PlacesOfChanges, pipeline_url
from icefloe.batch.sweep.probe_leftovers import checkpoint_folders, old_trials, storage_folders, trial_leftover
from icefloe.batch.sweep.shuffle_folders import ShuffleFolders
from icefloe.batch.sweep.shuffle_listing import ShuffleListing, list_shuffle
from icefloe.batch.sweep.sink_files import SinkFiles
from icefloe.errors import IcefloeError
from icefloe.pipeline.url import url_below
from icefloe.storage.clock import store_time
from icefloe.storage.dynamodb_access import COORDINATION
from icefloe.storage.location import StoreOpener, open_store
from icefloe.storage.store import Store

__all__ = ["Survey", "survey_storage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The result of a look at a storage.

    Attributes:
        leftovers: files that may be deleted, in the order in which they are to be deleted.
        problems: for each place whose checkpoint or sink could not be read, the reason. Its files are left alone.
        notes: further places that are left alone, for people.
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

    Nothing is deleted. An object is written for a moment, because only its time tells the time of the store.

    Args:
        storage_url: the storage, as pipeline files name it.
        older_than_seconds: files of no known batch may go if they are older.
        takes_forgotten: true if the files of a checkpoint that is gone may go as well, once all of them are older.
        credentials: of storage and sinks.
        environ: resolves ``${ENV}`` in the URLs of checkpoints and sinks.
        open_store: opens storage, checkpoints and sinks.

    Raises:
        TerminalError: the storage cannot be listed, or not be written.
        TransientError: it did not answer.
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
    """Collects errors, so that one place that cannot be read keeps no other from being swept."""

    found: list[IcefloeError] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        try:
            yield
        except IcefloeError as error:
            self.found.append(error)


@dataclass(slots=True)
class _Look:
    """The findings of a survey that is under way."""

    problems: _Problems
    leftovers: list[Leftover] = field(default_factory=list)
    checkpoints: dict[str, FoundCheckpoint] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take_folders(self, folders: ShuffleFolders, listing: ShuffleListing) -> None:
        """Judges every folder of a listing."""
        for folder, names in sorted(listing.folders.items(), key=lambda item: item[0].key):
            with self.problems.noted():
                try:
                    found = folders.find(folder)
                except CheckpointGoneError:
                    if not folders.takes_forgotten:
                        raise
                    forgotten = ForgottenFiles(folders=folders, folder=folder, names=names)
                    self.leftovers.extend(forgotten.leftovers())
                    self.notes.extend(forgotten.notes())
                    continue
                self.checkpoints[found.url] = found
                self.leftovers.extend(folders.leftovers(folder, found, names))

    def take_trials(self, place: Store, folders: Iterator[str], age: timedelta, *, known: Collection[str] = ()) -> None:
        """Takes the old trials in a place."""
        with self.problems.noted():
            self.leftovers.extend(old_trials(place, folders, age, known=known))

    def take_sink(self, sink: SinkFiles) -> list[Leftover]:
        """Judges the files at a sink."""
        found: list[Leftover] = []
        with self.problems.noted():
            found, notes = sink.leftovers()
            self.notes.extend(notes)
        return found

    def survey(self, *, places: tuple[Store, ...]) -> Survey:
        """The findings so far."""
        return Survey(
            leftovers=tuple(self.leftovers),
            problems=tuple(self.problems.found),
            notes=tuple(self.notes),
            places=places,
        )
