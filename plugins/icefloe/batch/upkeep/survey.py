"""Everything that may be deleted in a storage and at its sinks, judged by the checkpoints, and its deletion."""

import logging
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeAlias

from icefloe.batch.context.batch_folder import MARKER, FolderMarker
from icefloe.batch.deliver.commit_batch import delete_at_nodes
from icefloe.batch.run_settings import Credentials
from icefloe.checkpoint.log import Checkpoint, CheckpointView
from icefloe.checkpoint.protocol import BatchState
from icefloe.checkpoint.record_store import backfill_prefix
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest
from icefloe.storage.location import TRIALS, open_store, store_time
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store, StoredObject, join_url
from icefloe.units import natural

__all__ = ["open_batches", "survey_storage"]

logger = logging.getLogger(__name__)

_IN_SHUFFLE: Final = re.compile(r"(?P<owner>[A-Za-z0-9_-]+/[0-9a-f]{32})/((?P<batch>[^/]+)/)?.+", re.DOTALL)
_AT_SINK: Final = re.compile(r"(_backfills/(?P<owner>[^/]+)/)?batch=(?P<batch>[0-9]+)/.+", re.DOTALL)
_TRIAL: Final = re.compile(rf"((_backfills/)?[^/]+/)?({TRIALS})", re.DOTALL)

Batches: TypeAlias = Mapping[int | None, Sequence[StoredObject]]
"""Files of one checkpoint by batch number; None: of no batch."""


class Reason(StrEnum):
    """Why files may go."""

    ENDED = "the batch has ended"
    UNNAMED = "no manifest names them"
    OLD = "old, of no batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Files that may be deleted.

    Attributes:
        pipeline: None if the files do not say.
        batch_number: None if the files are of no batch.
        unless_opened_in: the checkpoint in which the batch must still be free right before the deletion; None: the
            batch has ended, or there is none.
    """

    store: Store
    files: Sequence[StoredObject]
    reason: Reason
    pipeline: str | None = None
    backfill_id: str | None = None
    batch_number: int | None = None
    unless_opened_in: Checkpoint | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(each.size_bytes for each in self.files)

    @property
    def url(self) -> str:
        """URL of the file, or of the folder that has them all."""
        return join_url(self.store.url, posixpath.commonpath([each.key for each in self.files]))

    def as_document(self) -> dict[str, Any]:
        """The leftover for people and programs."""
        return {
            "pipeline": self.pipeline,
            "backfill_id": self.backfill_id,
            "batch": self.batch_number,
            "url": self.url,
            "reason": self.reason.name.lower(),
            "because": self.reason.value,
            "files": len(self.files),
            "bytes": self.size_bytes,
        }

    def delete(self) -> int:
        """Deletes the files; returns their number. After an error the next sweep goes on."""
        # A batch that was opened since the survey may have ended already: its files are its own all the same.
        if self.unless_opened_in is not None and self.batch_number is not None:
            state = self.unless_opened_in.look().state_of(self.batch_number)
            if state is not BatchState.FREE:
                return 0
        keys = [each.key for each in self.files]
        if self.reason is Reason.ENDED:
            delete_at_nodes(self.store, keys)
        self.store.delete(keys)
        return len(self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """The checkpoint of some files, of a pipeline or of a backfill of it."""

    checkpoint: Checkpoint
    # As it was after the listing. Batches are recorded before their files: it lacks only batches begun since.
    view: CheckpointView
    pipeline: str
    backfill_id: str | None


@dataclass(slots=True, kw_only=True)
class Survey:
    """The result of a look at a storage."""

    leftovers: list[Leftover] = field(default_factory=list)
    problems: list[IcefloeError] = field(default_factory=list)  # places that could not be read are left alone
    notes: list[str] = field(default_factory=list)
    # By URL, and that of the checkpoint. Writers may have died there in the middle of a file.
    places: dict[tuple[str, str], Store] = field(default_factory=dict)

    def delete(self) -> tuple[int, tuple[IcefloeError, ...]]:
        """Deletes the leftovers; returns the number of files, and the errors. An error stops one leftover only."""
        deletions = [each.delete for each in self.leftovers] + [each.remove_unfinished for each in self.places.values()]
        deleted: list[int] = []
        problems: list[IcefloeError] = []
        for delete in deletions:
            with _noted(problems):
                deleted.append(delete())
        return sum(deleted), tuple(problems)

    def raise_problems(self, failures: Sequence[IcefloeError]) -> None:
        """Raises all problems and failed deletions as one error, transient only if each of them is."""
        if problems := [*self.problems, *failures]:
            may_pass = all(isinstance(problem, TransientError) for problem in problems)
            error = TransientError if may_pass else TerminalError
            raise error(*dict.fromkeys(problem.sentence for problem in problems))


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
    pipeline: str = "",
    open_store: Callable[..., Store] = open_store,
) -> Survey:
    """Looks for files that nobody needs: below ``shuffle/`` and ``staged/`` of a storage, and at its pipelines' sinks.

    Nothing is deleted. An object is written for a moment, because only that shows the time of the store.

    Args:
        older_than_seconds: files of no known batch may go if they are older.
        environ: resolves ``${ENV}`` in the URLs of checkpoints and sinks.
        pipeline: looks at the files of this one alone.
    """
    look = _Look(
        storage_url=storage_url,
        age=timedelta(seconds=older_than_seconds),
        open_place=partial(open_store, options=credentials.storage_options),
        open_sink_place=partial(open_store, options=credentials.sink_options),
        environ=environ,
        pipeline=pipeline,
    )
    look.look()
    return look


def open_batches(
    among: Collection[str], *, storages: Sequence[str], credentials: Credentials, environ: Mapping[str, str]
) -> set[str]:
    """Batches that a storage has open, or cannot judge now; a warning names what is in the way.

    Args:
        among: batches as ``<checkpoint id>/<number>``.
        storages: their URLs. A batch that none of them knows is not open.
    """
    wanted: defaultdict[str, list[str]] = defaultdict(list)
    for batch in among:
        wanted[batch.partition("/")[0]].append(batch)
    found = set[str]()
    for url in storages:
        look = _Look(
            storage_url=url,
            age=timedelta(0),
            open_place=partial(open_store, options=credentials.storage_options),
            open_sink_place=open_store,
            environ=environ,
            pipeline="",
        )
        with _needed_if_unknown(found, among):
            shuffle = look.open_place(url_below(url, "shuffle"))
            folders = [each.key.removesuffix(f"/{MARKER}") for each in shuffle.list("") if each.key.endswith(MARKER)]
            if not folders:
                raise TerminalError(
                    f"no pipeline has marked a folder of batches below {shuffle.url}: correct the URL in `storages`, "
                    "or bring back what was there"
                )
            for folder in folders:
                if batches := wanted.get(folder.rpartition("/")[2]):
                    with _needed_if_unknown(found, batches):
                        marker = FolderMarker.load(shuffle.child(folder))
                        table = None if marker is None else expand(marker.coordination, environ)
                        options = credentials.coordinated_by(table, url).storage_options
                        look.open_place = partial(open_store, options=options)
                        found.update(look.open_among(batches, look.open_place(join_url(shuffle.url, folder))))
    return found


@contextmanager
def _needed_if_unknown(found: set[str], batches: Iterable[str]) -> Iterator[None]:
    try:
        yield
    except IcefloeError as error:
        logger.warning("files of batches that may be open are kept: %s", error.sentence)
        found.update(batches)


@dataclass(slots=True, kw_only=True)
class _Look(Survey):
    storage_url: str
    age: timedelta
    # With the credentials of storage and checkpoint.
    open_place: Callable[[str], Store] = field(repr=False)
    open_sink_place: Callable[[str], Store] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    pipeline: str

    def look(self) -> None:
        """Looks at the folders below ``shuffle/``, and at the places that their checkpoints name."""
        self._is_new(self.open_place(self.storage_url), "")
        shuffle = self.open_place(url_below(self.storage_url, "shuffle"))
        if next(iter(shuffle.list(self.pipeline)), None) is None:
            self.notes.append(f"there are no files below {join_url(shuffle.url, self.pipeline)}")
            return
        listed, cutoff = self._listed(shuffle, _IN_SHUFFLE, below=self.pipeline)
        foreign = listed.pop(None, {}).get(None, [])
        if foreign:
            self.notes.append(f"{len(foreign):,} files below {shuffle.url} are not icefloe's: left alone")
        for folder, batches in sorted(listed.items(), key=str):
            with _noted(self.problems):
                marker, owner = self._owner(shuffle.child(str(folder)))
                self._look_at_batches(owner, shuffle, batches, cutoff)
                self._look_at_sinks(marker, owner)

    def _listed(
        self, store: Store, pattern: re.Pattern[str], pipeline: str | None = None, *, below: str = ""
    ) -> tuple[dict[str | None, Batches], datetime]:
        """The files by owner and batch, and the time before which they are old. Old trial objects are leftovers."""
        cutoff, trials = store_time(store) - self.age, list[StoredObject]()
        found: defaultdict[str | None, defaultdict[int | None, list[StoredObject]]]
        found = defaultdict(lambda: defaultdict(list))
        for each in store.list(below):
            match = pattern.fullmatch(each.key)
            if match is not None:
                number = None if match["batch"] is None else natural(match["batch"])
                found[match["owner"]][number].append(each)
            elif _TRIAL.fullmatch(each.key) is None:
                found[None][None].append(each)
            elif each.modified < cutoff:
                trials.append(each)
        if trials:
            self.leftovers.append(Leftover(store=store, files=trials, reason=Reason.OLD, pipeline=pipeline))
        return dict(found), cutoff

    def _is_new(self, place: Store, checkpoint_url: str) -> bool:
        """True if the place was not looked at before for this checkpoint."""
        return self.places.setdefault((place.url, checkpoint_url), place) is place

    def _look_at_batches(self, owner: _Owner, shuffle: Store, batches: Batches, cutoff: datetime) -> None:
        """All files of ended batches may go, and old files of no batch. The marker stays."""
        for number, files in batches.items():
            state = BatchState.FREE if number is None else owner.view.state_of(number)
            if state is BatchState.ENDED:
                self._add(owner, shuffle, number, files, Reason.ENDED)
            elif state is BatchState.FREE:
                old = [each for each in files if each.modified < cutoff and not each.key.endswith(f"/{MARKER}")]
                self._add(owner, shuffle, number, old, Reason.OLD)

    def _add(
        self, owner: _Owner, store: Store, number: int | None, files: Sequence[StoredObject], reason: Reason
    ) -> None:
        if files:
            leftover = Leftover(
                store=store,
                files=files,
                reason=reason,
                pipeline=owner.pipeline,
                backfill_id=owner.backfill_id,
                batch_number=number,
                unless_opened_in=owner.checkpoint if reason is Reason.OLD else None,
            )
            self.leftovers.append(leftover)

    def _owner(self, folder: Store) -> tuple[FolderMarker, _Owner]:
        """The checkpoint that a folder's marker names; `TerminalError` if that is another one, or out of reach."""
        _, pipeline, checkpoint_id = folder.url.rsplit("/", 2)
        marker, where = FolderMarker.load(folder), "which no marker names"
        if marker is not None:
            url = self._named_url(marker, folder)
            checkpoint, where = Checkpoint(self.open_place(url)), f"which is not at {url}"
            view = checkpoint.look()
            if view.checkpoint_id == checkpoint_id:
                owner = _Owner(checkpoint=checkpoint, view=view, pipeline=pipeline, backfill_id=marker.backfill_id)
                return marker, owner
        raise TerminalError(
            f"the files below {folder.url} belong to checkpoint {checkpoint_id} of pipeline {pipeline}, {where}: they "
            "are left alone; if it was moved, run the pipeline once; if it is gone for good, delete them",
            url=folder.url,
        )

    def open_among(self, batches: Iterable[str], folder: Store) -> Iterator[str]:
        """Those of batches of one checkpoint that it has open."""
        _, owner = self._owner(folder)
        for batch in batches:
            number = natural(batch.rpartition("/")[2])
            if number is not None and owner.view.state_of(number) not in (BatchState.FREE, BatchState.ENDED):
                yield batch

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

    def _look_at_sinks(self, marker: FolderMarker, owner: _Owner) -> None:
        """Looks at the places of a pipeline's changes, each once, although backfills have checkpoints too."""
        below = "" if marker.backfill_id is None else f"/{backfill_prefix(marker.backfill_id)}"
        pipeline = self.open_place(owner.checkpoint.url.removesuffix(below))
        self._is_new(pipeline, "")
        staged = marker.changes_url or url_below(self.storage_url, "staged", owner.pipeline)
        places = [("folder of changes", staged, self.open_place)]
        record = owner.view.pipeline
        if record is not None and record.result_configuration.get("sink.type") == "files":
            places.insert(0, ("sink", str(record.result_configuration["sink.path"]), self.open_sink_place))
        for what, written, open_place in places:
            path = str(expand(written, self.environ))
            if has_reference(path):
                self.notes.append(
                    f"the {what} {path} of pipeline {owner.pipeline} uses a variable that is not set here"
                )
            elif next(iter((store := open_place(path)).list("")), None) and self._is_new(store, pipeline.url):
                with _noted(self.problems):
                    self._look_at_sink(store, Checkpoint(pipeline), owner.pipeline, is_staged=what != "sink")

    def _look_at_sink(self, store: Store, of_pipeline: Checkpoint, pipeline: str, *, is_staged: bool) -> None:
        listed, cutoff = self._listed(store, _AT_SINK, pipeline)
        for backfill_id, batches in listed.items():
            numbers = sorted(number for number in batches if number is not None)
            if not numbers:
                continue
            checkpoint = of_pipeline if backfill_id is None else of_pipeline.backfill(backfill_id)
            root = store if backfill_id is None else store.child(f"_backfills/{backfill_id}")
            folder, view = ChangeFiles(root), checkpoint.look()
            # Files of another checkpoint must not be judged by this one.
            if view.checkpoint_id is None or folder.owner != view.checkpoint_id:
                self.notes.append(
                    f"{root.url} is not claimed by the checkpoint {checkpoint.url}: its files are left alone"
                )
                continue
            owner = _Owner(checkpoint=checkpoint, view=view, pipeline=pipeline, backfill_id=backfill_id)
            ended = [number for number in numbers if view.state_of(number) is BatchState.ENDED]
            manifests = map_parallel(partial(_names, folder), ended)
            named = dict(zip(ended, manifests, strict=True))
            for number in numbers:
                files, names = batches[number], named.get(number)
                old = [each for each in files if each.modified < cutoff]
                if names is not None:
                    unnamed = [each for each in files if f"/{each.key}".partition(f"/batch={number}/")[2] not in names]
                    self._add(owner, store, number, unnamed, Reason.UNNAMED)
                elif number in named and is_staged:
                    # A cleanup deletes the manifest of a staged batch first. A late task may write next to nothing.
                    self._add(owner, store, number, old, Reason.UNNAMED)
                elif number in named:
                    self.notes.append(
                        f"batch {number} at {store.url} has ended, but has no manifest: its files are left alone"
                    )
                elif view.state_of(number) is BatchState.FREE and not any(Manifest.is_key(each.key) for each in files):
                    self._add(owner, store, number, old, Reason.OLD)


def _names(folder: ChangeFiles, number: int) -> Collection[str] | None:
    """The files of a batch that readers see; None if it has no manifest."""
    with suppress(KeyMissingError):
        return folder.manifest(number).names
    return None
