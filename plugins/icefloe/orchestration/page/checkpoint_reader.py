"""Reads documents of checkpoints for the page: by name, never by listing."""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from icefloe.batch.context.session import batch_url
from icefloe.batch.phase_record import load_phases
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.log import Checkpoint
from icefloe.documents import dump_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.orchestration.connections import storage_options
from icefloe.patience import Lanes
from icefloe.pipeline.model import Pipeline
from icefloe.storage.location import open_store
from icefloe.storage.store import Store, join_url

logger = logging.getLogger(__name__)

Key = TypeVar("Key")

_THREADS: Final = 16
_RETRY_SECONDS: Final = 30.0
_KEPT_SECONDS: Final = 600.0
_MAX_ENTRIES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of looking for a document."""

    value: Any = None  # the document, if any; with a sentence: the last one that was read
    sentence: str | None = None  # why it could not be read, or is not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A document to read."""

    name: str  # of the document, in sentences; looks with one name share their answers
    read: Callable[[], object]
    lane: str = ""  # its store or catalog; a silent one holds up only its own lane


class _Known(NamedTuple):
    found: Found
    counts_until: float


class DocumentCache:
    """Remembers the answer of each look for some seconds; while a new look takes too long, the last answer counts."""

    def __init__(
        self,
        *,
        fresh_seconds: float,  # time for which a read document counts
        deadline_seconds: float,  # wait of a call for all its looks; 0: no wait, and no sentence meanwhile
        threads: int = _THREADS,  # looks at once in each lane; one that hangs holds its thread and is not repeated
        retry_seconds: float = _RETRY_SECONDS,  # for a missing document, which may be written, or a failed look
    ) -> None:
        self._fresh_seconds = fresh_seconds
        self._retry_seconds = min(fresh_seconds, retry_seconds)
        self._deadline_seconds = deadline_seconds
        self._lanes = Lanes(threads=threads, name="icefloe-page")
        self._lock = Lock()
        self._under_way: dict[str, Future[Found]] = {}
        self._known: dict[str, _Known] = {}

    def get(self, looks: Mapping[Key, Look]) -> dict[Key, Found]:
        """The answer of each look, by its key. All looks begin at once; the call waits no longer than the deadline."""
        begun = {key: self._begin(look) for key, look in looks.items()}
        wait([each for each in begun.values() if isinstance(each, Future)], timeout=self._deadline_seconds)
        found = {key: self._answer(look.name, begun[key]) for key, look in looks.items()}
        self._forget()
        return found

    def _begin(self, look: Look) -> Future[Found] | Found:
        """The look that is under way, or the known answer, if it counts."""
        key = look.name
        try:
            with self._lock:
                known = self._known.get(key)
                if known is not None and time.monotonic() < known.counts_until:
                    return known.found
                if key not in self._under_way:
                    self._under_way[key] = self._lanes.submit(look.lane, partial(self._run, key, look.read))
                return self._under_way[key]
        except MemoryError as error:
            # There is no thread for it.
            return self._remember(key, _unread(key, error))

    def _run(self, key: str, look: Callable[[], object]) -> Found:
        try:
            return self._remember(key, _found(key, look))
        finally:
            # A look that ended in any other way would be under way for ever, and its error the answer to every call.
            with self._lock:
                self._under_way.pop(key, None)

    def _remember(self, key: str, found: Found) -> Found:
        with self._lock:
            before = self._known.pop(key, None)
            # A failed look takes nothing off the page: the document that is known stays, next to the error.
            if before is not None and found.value is None and found.sentence is not None:
                found = replace(found, value=before.found.value)
            is_whole = found.value is not None and found.sentence is None
            seconds = self._fresh_seconds if is_whole else self._retry_seconds
            self._known[key] = _Known(found, time.monotonic() + seconds)
        return found

    def _forget(self) -> None:
        """Keep no answer long after it counted; they are put in anew each time, so the oldest one comes first."""
        with self._lock:
            since = time.monotonic() - _KEPT_SECONDS
            kept = [(key, known) for key, known in self._known.items() if known.counts_until > since]
            self._known = dict(kept[-_MAX_ENTRIES:])

    def _answer(self, key: str, begun: Future[Found] | Found) -> Found:
        if isinstance(begun, Found):
            return begun
        if begun.done():
            return begun.result()
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known.found
        seconds = self._deadline_seconds
        if not seconds:
            return Found()
        return Found(sentence=f"{key} did not answer within {seconds:g} seconds; the page looks again")


def _found(key: str, look: Callable[[], object]) -> Found:
    try:
        return Found(value=look())
    except TransientError as error:
        return Found(sentence=f"{error.sentence}; the page looks again")
    except IcefloeError as error:
        return Found(sentence=error.sentence)
    except Exception as error:  # noqa: BLE001 - a store or catalog must not take the page along
        return _unread(key, error)


def _unread(key: str, error: Exception) -> Found:
    # The words of an error that is not ours may hold a secret, and its readers are many: its kind says enough.
    kind = type(error).__name__
    logger.warning("%s could not be read: %s", key, kind)
    return Found(sentence=f"{key} could not be read ({kind}): run `icefloe status` on a machine that reaches the store")


_STATUS: Final = "status.json"
# A page asks again, so it waits for seconds only; tasks wait for minutes.
_HURRY: Final = {"timeout": "5s", "connect_timeout": "3s"}
_PATIENCE_SECONDS: Final = 3.0
_FRESH_SECONDS: Final = 3.0
_DEADLINE_SECONDS: Final = 4.0
_A_DAY_SECONDS: Final = 86_400.0


class CheckpointReader:
    """Reads documents of checkpoints; a fault comes back as a sentence, never as an error."""

    def __init__(self, *, deadline_seconds: float = _DEADLINE_SECONDS, fresh_seconds: float = _FRESH_SECONDS) -> None:
        # Answers that may change: a status, or that a report is missing. The deadline is for all that one call reads.
        self._changing = DocumentCache(fresh_seconds=fresh_seconds, deadline_seconds=deadline_seconds)
        self._fixed = DocumentCache(
            fresh_seconds=_A_DAY_SECONDS, retry_seconds=fresh_seconds, deadline_seconds=deadline_seconds
        )

    def statuses(self, pipelines: Mapping[str, Pipeline]) -> dict[str, Found]:
        """The status of each pipeline, by the given keys."""
        looks = {
            key: _look(pipeline, f"{_STATUS} of {key}", partial(_read, pipeline, _STATUS))
            for key, pipeline in pipelines.items()
        }
        return self._changing.get(looks)

    def reports(
        self, pipeline: Pipeline, batch_numbers: Iterable[int], *, backfill_id: str | None = None
    ) -> dict[int, Found]:
        """The reports of batches that ended, each with its ``state``. They never change; others may end later."""
        of = f"{pipeline.name}{'' if backfill_id is None else f', backfill {backfill_id}'}"
        return self._fixed.get(
            {
                number: _look(pipeline, f"batch {number} of {of}", partial(_read_report, pipeline, number, backfill_id))
                for number in batch_numbers
            }
        )

    def phases(
        self, pipeline: Pipeline, batch_number: int, *, backfill_id: str | None = None
    ) -> list[dict[str, object]]:
        """Phase records of an open batch; none if unreadable."""
        name = f"the phases of {pipeline.name} {backfill_id or ''} {batch_number}"
        look = _look(pipeline, name, partial(_read_phases, pipeline, batch_number, backfill_id))
        return self._changing.get({"": look})[""].value or []


def _look(pipeline: Pipeline, name: str, read: Callable[[], object]) -> Look:
    url = urlsplit(pipeline.checkpoint_url)
    # A pipeline may be given another checkpoint under its old name, so the place is part of the document's name.
    return Look(
        name=f"{name} in {pipeline.checkpoint_url}",
        read=read,
        lane=f"{url.scheme}://{url.netloc} {pipeline.storage_conn_id}",
    )


def _read_phases(pipeline: Pipeline, batch_number: int, backfill_id: str | None) -> list[dict[str, Any]]:
    offset = _checkpoint(pipeline, backfill_id).offset(batch_number)
    if offset is None:
        return []
    expanded = pipeline.expanded(os.environ)
    phases = load_phases(_open(expanded, batch_url(expanded, offset)))
    return [json.loads(dump_document(each)) for each in phases]


def _checkpoint(pipeline: Pipeline, backfill_id: str | None) -> Checkpoint:
    expanded = pipeline.expanded(os.environ)
    checkpoint = Checkpoint(_open(expanded, expanded.checkpoint_url))
    return checkpoint if backfill_id is None else checkpoint.backfill(backfill_id)


def _read(pipeline: Pipeline, key: str) -> object:
    expanded = pipeline.expanded(os.environ)
    return _load(_open(expanded, expanded.checkpoint_url), key)


def _load(store: Store, key: str) -> Any:
    data = store.find(key)
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as cause:
        raise TerminalError(f"{join_url(store.url, key)} is not JSON: it is damaged") from cause


def _read_report(pipeline: Pipeline, batch_number: int, backfill_id: str | None) -> object:
    checkpoint = _checkpoint(pipeline, backfill_id)
    # A run writes the report before its commit, so the commit alone says whether and how a batch ended.
    commit = checkpoint.committed(batch_number)
    if commit is None:
        raise TerminalError(f"there is no commit of batch {batch_number} in {checkpoint.url}")
    report = BatchReport.load(checkpoint, batch_number, backfill_id=backfill_id)
    return {**json.loads(dump_document(report)), "state": commit.outcome.state}


def _open(pipeline: Pipeline, url: str) -> Store:
    options = storage_options(pipeline)
    is_remote = not url.startswith(("file:", "memory:"))
    return open_store(url, options={**_HURRY, **options} if is_remote else options, patience=_PATIENCE_SECONDS)
