"""Objects that processes left which were killed while they tried whether a place can be written."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Final

from icefloe.batch.sweep.leftover import Leftover, Reason
from icefloe.storage.clock import store_time
from icefloe.storage.probe import PROBE
from icefloe.storage.store import Store, StoredObject

_ROOMS: Final = {"checkpoints": "backfills", "staged": "_backfills"}
"""Folders of a storage with one folder for each pipeline, and the folder there with one for each backfill."""


def storage_folders(storage: Store) -> Iterator[str]:
    """The folders of a storage in which trials may lie, the storage itself first.

    A pipeline that was killed before its first batch has no record, so only the names of folders lead to its trials.
    """
    yield ""
    for room, backfills in _ROOMS.items():
        for pipeline in sorted(storage.folders(room)):
            yield pipeline
            yield from sorted(storage.folders(f"{pipeline}/{backfills}"))


def checkpoint_folders(checkpoint: Store) -> Iterator[str]:
    """The folders of a checkpoint in which trials may lie: its own, and that of each backfill."""
    yield ""
    yield from sorted(checkpoint.folders("backfills"))


def old_trials(
    place: Store, folders: Iterator[str], age: timedelta, *, known: Collection[str] = ()
) -> Iterator[Leftover]:
    """The trials in a place that were written longer ago than ``age``, by the clock of its store.

    Args:
        place: a storage or a checkpoint.
        folders: its folders in which trials may lie. Those below them may hold millions of files.
        age: younger trials may be under way.
        known: URLs of places that somebody else looks at, with what is below them.

    Raises:
        TerminalError: the place cannot be listed, or not be written.
        TransientError: it did not answer.
    """
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
    """One trial, which may be deleted."""
    return Leftover(
        store=place, pipeline=None, reason=Reason.OLD, objects=1, size_bytes=trial.size_bytes, keys=(trial.key,)
    )
