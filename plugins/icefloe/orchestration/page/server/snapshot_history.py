"""The snapshots of a pipeline's table, for a user who picks a range to backfill."""

import os
from collections.abc import Mapping
from typing import Any, Final

from icefloe.batch.context.session import open_table
from icefloe.iceberg.history.history import History
from icefloe.orchestration.connections.airflow_connections import resolve_credentials
from icefloe.orchestration.page.document_cache import DocumentCache, Found
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json, natural, time_of_ms

_FRESH_SECONDS: Final = 10.0
_DEADLINE_SECONDS: Final = 15.0
_MOST: Final = 1_000
_FIGURES: Final = {"added-records": "added_rows", "deleted-records": "deleted_rows", "added-files-size": "added_bytes"}


class SnapshotHistory:
    """Loads tables through their catalogs, a few seconds at most."""

    def __init__(self) -> None:
        self._cache = DocumentCache(fresh_seconds=_FRESH_SECONDS, deadline_seconds=_DEADLINE_SECONDS)

    def of(self, pipeline: Pipeline) -> Found:
        """The `history_document` of the branch, or the reason why it cannot be read."""
        key = f"the history of {pipeline.table} ({pipeline.name})"
        return self._cache.get({key: lambda: _load(pipeline)})[key]


def history_document(history: History, branch: str) -> dict[str, Any]:
    """The newest snapshots of a branch, newest first, and what comes before them.

    ``older_snapshots`` is the number of those that are there and not listed. ``reaches_beginning`` is false
    if the oldest of all names a parent, which expired. PyIceberg's expiry leaves no such name; then plan finds the gap.
    """
    head = history.head(branch)
    lineage = [] if head is None else history.lineage(head.snapshot_id)
    listed = [
        {
            "snapshot_id": str(snapshot.snapshot_id),
            "parent_snapshot_id": id_json(snapshot.parent_snapshot_id),
            "at": time_of_ms(snapshot.timestamp_ms),
            "operation": None if snapshot.summary is None else snapshot.summary.operation.value,
            **_figures({} if snapshot.summary is None else snapshot.summary.additional_properties),
        }
        for snapshot in lineage[:_MOST]
    ]
    return {
        "snapshots": listed,
        "older_snapshots": len(lineage) - len(listed),
        "reaches_beginning": not lineage or lineage[-1].parent_snapshot_id is None,
    }


def _load(pipeline: Pipeline) -> dict[str, Any]:
    expanded = pipeline.expanded(os.environ)
    table = open_table(expanded, resolve_credentials(expanded))
    return history_document(History.of(table), expanded.branch)


def _figures(summary: Mapping[str, str]) -> dict[str, int | None]:
    return {ours: natural(summary.get(theirs, "")) for theirs, ours in _FIGURES.items()}
