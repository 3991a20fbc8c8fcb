"""Everything that may be deleted in a storage and at its sinks, also files there that no manifest names."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.leftover import (
    FoundCheckpoint,
    Leftover,
    OpenPlace,
    Reason,
    ShuffleFolders,
    ShuffleListing,
    list_shuffle,
)
from icefloe.checkpoint.log import Checkpoint, CheckpointView
from icefloe.checkpoint.protocol import BatchState
from icefloe.checkpoint.record_store import backfill_prefix
from icefloe.errors import IcefloeError
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest
from icefloe.storage.location import TRIALS, open_store, store_time
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store, StoredObject

__all__ = ["survey_storage"]

_KEY: Final = re.compile(
    rf"(_backfills/(?P<backfill_id>[^/]+)/)?(batch=(?P<batch>[0-9]+)/.+|{TRIALS})",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFiles:
    """A pipeline's sink path, with the output of its backfills below it."""

    store: Store
    checkpoint: Checkpoint  # of the pipeline; its backfills have theirs below it
    pipeline: str
    cutoff: datetime  # a time of this store's clock; earlier files are old
    is_passed: bool  # batches are staged there: a cleanup may be killed while it deletes one

    def leftovers(self, notes: list[str]) -> list[Leftover]:
        """The files that may go; adds a note for each place that is left alone."""
        outputs: defaultdict[str | None, defaultdict[int, list[StoredObject]]]
        outputs, trials = defaultdict(lambda: defaultdict(list)), []
        for stored in self.store.list(""):
            match = _KEY.fullmatch(stored.key)
            if match is not None and match["batch"] is not None:
                outputs[match["backfill_id"]][int(match["batch"])].append(stored)
            elif match is not None and stored.modified < self.cutoff:
                trials.append(stored)
        found = [Leftover.of_files(self.store, trials, Reason.OLD, pipeline=self.pipeline)] if trials else []
        for backfill_id, batches in outputs.items():
            checkpoint = self.checkpoint if backfill_id is None else self.checkpoint.backfill(backfill_id)
            root = self.store if backfill_id is None else self.store.child(f"_backfills/{backfill_id}")
            files, view = ChangeFiles(root), checkpoint.look()
            # Files of another checkpoint must not be judged by this one.
            if view.checkpoint_id is None or files.owner != view.checkpoint_id:
                notes.append(f"{root.url} is not claimed by the checkpoint {checkpoint.url}: its files are left alone")
                continue
            judge = partial(self._judge, backfill_id, checkpoint, view, files)
            for leftover, note in map_parallel(judge, sorted(batches.items())):
                found.extend(filter(None, [leftover]))
                notes.extend(filter(None, [note]))
        return found

    def _judge(
        self,
        backfill_id: str | None,
        checkpoint: Checkpoint,
        view: CheckpointView,
        sink: ChangeFiles,
        batch: tuple[int, Sequence[StoredObject]],
    ) -> tuple[Leftover | None, str | None]:
        """The files that may go, and a note about files that stay although nobody names them."""
        number, files = batch
        state, going = view.state_of(number), list[StoredObject]()
        has_ended, manifest = state is BatchState.ENDED, None
        if has_ended:
            with suppress(KeyMissingError):
                manifest = sink.manifest(number)
        if manifest is not None:
            named = manifest.names
            going = [each for each in files if each.key.rpartition("/")[2] not in named]
        elif has_ended and not self.is_passed:
            return None, f"batch {number} at {self.store.url} has ended, but has no manifest: its files are left alone"
        elif has_ended or (state is BatchState.FREE and not any(Manifest.is_key(each.key) for each in files)):
            # A cleanup deletes the manifest of a staged batch first. A late task may write next to nothing, too.
            going = [each for each in files if each.modified < self.cutoff]
        if not going:
            return None, None
        return Leftover.of_files(
            self.store,
            going,
            Reason.UNNAMED if has_ended else Reason.OLD,
            pipeline=self.pipeline,
            backfill_id=backfill_id,
            batch_number=number,
            unless_opened_in=None if has_ended else checkpoint,
        ), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The result of a look at a storage."""

    leftovers: tuple[Leftover, ...] = ()  # in the order of their deletion
    problems: tuple[IcefloeError, ...] = ()  # places that could not be read; their files are left alone
    notes: tuple[str, ...] = ()
    places: tuple[Store, ...] = ()  # writers may have died there in the middle of a file

    def delete(self) -> tuple[int, tuple[IcefloeError, ...]]:
        """Deletes the leftovers; returns the number of files, and the errors. An error stops one leftover only."""
        deletions = [each.delete for each in self.leftovers] + [each.remove_unfinished for each in self.places]
        deleted: list[int] = []
        problems: list[IcefloeError] = []
        for delete in deletions:
            with _noted(problems):
                deleted.append(delete())
        return sum(deleted), tuple(problems)


@contextmanager
def _noted(problems: list[IcefloeError]) -> Iterator[None]:
    """Collects an error, so that one unreadable place keeps no other from being swept."""
    try:
        yield
    except IcefloeError as error:
        problems.append(error)


def survey_storage(
    storage_url: str,
    *,
    older_than_seconds: float,
    credentials: Credentials,
    environ: Mapping[str, str],
    open_store: Callable[..., Store] = open_store,
) -> Survey:
    """Looks for files that nobody needs: below ``shuffle/`` and ``staged/`` of a storage, and at its pipelines' sinks.

    Nothing is deleted. An object is written for a moment, because only that shows the time of the store.

    Args:
        older_than_seconds: files of no known batch may go if they are older.
        environ: resolves ``${ENV}`` in the URLs of checkpoints and sinks.
    """
    look = _Look(
        storage_url=storage_url,
        age=timedelta(seconds=older_than_seconds),
        open_place=partial(open_store, options=credentials.storage_options),
        open_sink_place=partial(open_store, options=credentials.sink_options),
        environ=environ,
    )
    return look.survey()


@dataclass(slots=True, kw_only=True)
class _Look:
    storage_url: str
    age: timedelta
    open_place: OpenPlace
    open_sink_place: OpenPlace
    environ: Mapping[str, str]
    problems: list[IcefloeError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def survey(self) -> Survey:
        """Looks at the folders below ``shuffle/``, then at the places that their checkpoints name."""
        storage, shuffle = self.open_place(self.storage_url), self.open_place(url_below(self.storage_url, "shuffle"))
        if next(iter(shuffle.list("")), None) is None:
            return Survey(notes=(f"there are no files below {shuffle.url}",), places=(storage,))
        cutoff = store_time(shuffle) - self.age
        listing = list_shuffle(shuffle, cutoff)
        leftovers, checkpoints = self._in_shuffle(shuffle, listing, cutoff)
        sinks: dict[tuple[str, str], SinkFiles] = {}
        for found in checkpoints.values():
            with _noted(self.problems):
                self._add_places(sinks, found)
        at_sinks: list[Leftover] = []
        for sink in sinks.values():
            with _noted(self.problems):
                at_sinks += sink.leftovers(self.notes)
        if listing.foreign_objects:
            self.notes.append(f"{listing.foreign_objects:,} files below {shuffle.url} are not icefloe's: left alone")
        trials = [Leftover.of_files(shuffle, [trial], Reason.OLD) for trial in listing.trials]
        urls = sorted({_pipeline_url(found) for found in checkpoints.values()})
        return Survey(
            leftovers=(*at_sinks, *trials, *leftovers),
            problems=tuple(self.problems),
            notes=tuple(self.notes),
            places=(storage, *map(self.open_place, urls), *(sink.store for sink in sinks.values())),
        )

    def _in_shuffle(
        self, shuffle: Store, listing: ShuffleListing, cutoff: datetime
    ) -> tuple[list[Leftover], dict[str, FoundCheckpoint]]:
        """The leftovers below ``shuffle/``, and the checkpoints by their URLs."""
        folders = ShuffleFolders(
            shuffle=shuffle,
            open_place=self.open_place,
            environ=self.environ,
            cutoff=cutoff,
        )
        leftovers: list[Leftover] = []
        checkpoints: dict[str, FoundCheckpoint] = {}
        for folder, names in sorted(listing.folders.items(), key=lambda item: item[0].key):
            with _noted(self.problems):
                found = folders.find(folder)
                checkpoints[found.url] = found
                leftovers.extend(folders.leftovers(folder, found, names))
        return leftovers, checkpoints

    def _add_places(self, sinks: dict[tuple[str, str], SinkFiles], found: FoundCheckpoint) -> None:
        """The places of a pipeline's changes, each once, although backfills have checkpoints too."""
        record, pipeline = found.view.pipeline, found.marker.pipeline
        staged = found.marker.changes_url or url_below(self.storage_url, "staged", pipeline)
        places = [("folder of changes", staged, self.open_place)]
        if record is not None and record.result_configuration.get("sink.type") == "files":
            places.insert(0, ("sink", str(record.result_configuration["sink.path"]), self.open_sink_place))
        url = _pipeline_url(found)
        for what, written, open_place in places:
            path = str(expand(written, self.environ))
            if has_reference(path):
                self.notes.append(f"the {what} {path} of pipeline {pipeline} uses a variable that is not set here")
            elif (path, url) not in sinks and next(iter((store := open_place(path)).list("")), None) is not None:
                sinks[path, url] = SinkFiles(
                    store=store,
                    checkpoint=Checkpoint(self.open_place(url)),
                    pipeline=pipeline,
                    cutoff=store_time(store) - self.age,
                    is_passed=what != "sink",
                )


def _pipeline_url(found: FoundCheckpoint) -> str:
    """URL of the pipeline's checkpoint; a backfill has its own below that."""
    backfill_id = found.marker.backfill_id
    return found.url if backfill_id is None else found.url.removesuffix(f"/{backfill_prefix(backfill_id)}")
