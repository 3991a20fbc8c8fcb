"""Reads documents of checkpoints for the page: by name, never by listing."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from icefloe.batch.context.session import batch_url
from icefloe.batch.phase_record import PHASE_KEYS
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.record_store import backfill_prefix, report_key
from icefloe.errors import TerminalError
from icefloe.orchestration.connections import storage_options
from icefloe.orchestration.page.document_cache import DocumentCache, Found
from icefloe.pipeline.model import Pipeline
from icefloe.storage.keys import join_url
from icefloe.storage.location import open_store
from icefloe.storage.store import Store

_STATUS: Final = "status.json"
# A page asks again, so it waits for seconds only; tasks wait for minutes.
_HURRY: Final = {"timeout": "5s", "connect_timeout": "3s"}
_PATIENCE_SECONDS: Final = 3.0
_FRESH_SECONDS: Final = 3.0
_DEADLINE_SECONDS: Final = 4.0
_A_DAY_SECONDS: Final = 86_400.0


class CheckpointReader:
    """Reads documents of checkpoints; a fault comes back as a sentence, never as an error.

    Args:
        deadline_seconds: wait of one call for all that it reads.
        fresh_seconds: age of answers that may change: a status, or that a report is missing.
    """

    def __init__(self, *, deadline_seconds: float = _DEADLINE_SECONDS, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._changing = DocumentCache(fresh_seconds=fresh_seconds, deadline_seconds=deadline_seconds)
        self._fixed = DocumentCache(
            fresh_seconds=_A_DAY_SECONDS, retry_seconds=fresh_seconds, deadline_seconds=deadline_seconds
        )

    def statuses(self, pipelines: Mapping[str, Pipeline]) -> dict[str, Found]:
        """The status of each pipeline, by the given keys."""
        names = {key: f"{_STATUS} of {key} in {pipeline.checkpoint_url}" for key, pipeline in pipelines.items()}
        looks = {names[key]: partial(_read, pipeline, _STATUS) for key, pipeline in pipelines.items()}
        lanes = {names[key]: _lane(pipeline) for key, pipeline in pipelines.items()}
        found = self._changing.get(looks, lanes=lanes)
        return {key: found[name] for key, name in names.items()}

    def reports(
        self, pipeline: Pipeline, batch_numbers: Iterable[int], *, backfill_id: str | None = None
    ) -> dict[int, Found]:
        """The reports of some batches. They never change; a missing one may be written later."""
        prefix = "" if backfill_id is None else f"{backfill_prefix(backfill_id)}/"
        keys = {number: f"{prefix}{report_key(number)}" for number in batch_numbers}
        # A pipeline may be given another checkpoint under its old name, so the place is part of the cache's key.
        names = {number: f"{key} of {pipeline.name} in {pipeline.checkpoint_url}" for number, key in keys.items()}
        looks: dict[str, Callable[[], Any]] = {
            names[number]: partial(_read_report, pipeline, key) for number, key in keys.items()
        }
        found = self._fixed.get(looks, lanes=dict.fromkeys(looks, _lane(pipeline)))
        return {number: found[name] for number, name in names.items()}

    def phases(
        self, pipeline: Pipeline, batch_number: int, *, backfill_id: str | None = None
    ) -> list[dict[str, object]]:
        """Phase records of an open batch; none if unreadable."""
        key = f"the phases of {pipeline.name} {backfill_id or ''} {batch_number} in {pipeline.checkpoint_url}"
        look = partial(_read_phases, pipeline, batch_number, backfill_id)
        found = self._changing.get({key: look}, lanes={key: _lane(pipeline)})[key]
        return found.value or []


def _read_phases(pipeline: Pipeline, batch_number: int, backfill_id: str | None) -> list[dict[str, Any]]:
    expanded = pipeline.expanded(os.environ)
    checkpoint = Checkpoint(_open(expanded, expanded.checkpoint_url))
    offset = (checkpoint if backfill_id is None else checkpoint.backfill(backfill_id)).offset(batch_number)
    if offset is None:
        return []
    store = _open(expanded, batch_url(expanded, offset))
    found = (_load(store, key) for key in PHASE_KEYS)
    return [each for each in found if each is not None]


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


def _read_report(pipeline: Pipeline, key: str) -> object:
    report = _read(pipeline, key)
    if report is None:
        raise TerminalError(f"there is no {key} in {pipeline.checkpoint_url}")
    return report


def _lane(pipeline: Pipeline) -> str:
    url = urlsplit(pipeline.checkpoint_url)
    return f"{url.scheme}://{url.netloc} {pipeline.storage_conn_id}"


def _open(pipeline: Pipeline, url: str) -> Store:
    options = storage_options(pipeline)
    is_remote = not url.startswith(("file:", "memory:"))
    return open_store(url, options={**_HURRY, **options} if is_remote else options, patience=_PATIENCE_SECONDS)
