"""The present state of tables: a pipeline that is paused, or whose run died, does not report new snapshots."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from icefloe.batch.context.session import open_table
from icefloe.batch.status.table_facts import TableFacts
from icefloe.orchestration.connections.airflow_connections import resolve_credentials
from icefloe.orchestration.page.document_cache import DocumentCache, Found
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json, now_text

_FRESH_SECONDS: Final = 30.0
_THREADS: Final = 2


class TableWatch:
    """Looks through the catalogs in the background. Nobody ever waits for a catalog, and none holds up another.

    Args:
        fresh_seconds: greatest age of a look. While nobody asks, no look is made.
    """

    def __init__(self, *, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._cache = DocumentCache(fresh_seconds=fresh_seconds, deadline_seconds=0, threads=_THREADS)

    def looks(self, statuses: Mapping[str, tuple[Pipeline, Found]]) -> dict[str, Found]:
        """The last look at the table of each pipeline, by the keys given; empty if no look came back yet.

        Args:
            statuses: the ``status.json`` of each pipeline, which has its cursor.
        """
        names: dict[str, str] = {}
        looks: dict[str, Callable[[], Any]] = {}
        lanes: dict[str, str] = {}
        for key, (pipeline, status) in statuses.items():
            if status.value is None and status.sentence is not None:
                continue  # nobody knows the cursor
            written = status.value or {}
            cursor, is_loading = written.get("cursor_snapshot_id"), bool(written.get("load_part"))
            cursor_id = None if cursor is None else int(cursor)
            # With the cursor in the key: after a batch, a look from before it is not an old answer but none.
            name = names[key] = f"{pipeline.table} of {key} since {cursor_id} {is_loading}"
            since = written.get("cursor_timestamp")
            looks[name] = partial(_look, pipeline, cursor_id, since, is_loading=is_loading)
            lanes[name] = str(pipeline.catalog)
        found = self._cache.get(looks, lanes=lanes)
        return {key: found[name] for key, name in names.items()}


def as_of_now(status: Found, look: Found) -> Found:
    """A status with the lag and expiry of a later look; its facts about the checkpoint stay.

    >>> as_of_now(Found(value={"last_batch": 7, "lag_snapshots": 0}), Found(value={"lag_snapshots": 2})).value
    {'last_batch': 7, 'lag_snapshots': 2}
    """
    if look.value is None or status.value is None:
        return status
    if str(status.value.get("updated_at", "")) > str(look.value.get("updated_at", "")):
        return status
    return Found(value={**status.value, **look.value}, sentence=status.sentence)


def _look(
    pipeline: Pipeline, cursor_snapshot_id: int | None, cursor_timestamp: str | None, *, is_loading: bool
) -> dict[str, Any]:
    expanded = pipeline.expanded(os.environ)
    table = open_table(expanded, resolve_credentials(expanded))
    facts = TableFacts.of(
        table, branch=expanded.branch, cursor_snapshot_id=cursor_snapshot_id, cursor_timestamp=cursor_timestamp,
        is_loading=is_loading,
    )  # fmt: skip
    looked_at = now_text()
    return {**asdict(facts), "head_snapshot_id": id_json(facts.head_snapshot_id), "next_expiry": _expiry(facts),
            "updated_at": looked_at}  # fmt: skip


def _expiry(facts: TableFacts) -> dict[str, str] | None:
    expiry = facts.next_expiry
    return None if expiry is None else {"snapshot_id": str(expiry.snapshot_id), "at": expiry.at}
