"""The assets of pipelines: the asset that starts a pipeline, and the asset that starts consumers of its changes."""

import logging
from datetime import datetime, timedelta
from typing import Final

from airflow.sdk import Asset, AssetAlias, get_current_context
from airflow.sdk.definitions.asset import AssetNameRef

from icefloe.errors import one_line
from icefloe.orchestration.tasks.task_results import CommittedBatch

logger = logging.getLogger(__name__)

_SCHEME: Final = "icefloe://"
_BATCH: Final = ("checkpoint_uri", "backfill_id", "batch_number", "after_snapshot_id", "up_to_snapshot_id")
_CLOCKS_DIFFER: Final = timedelta(hours=1)
_MOST_EVENTS: Final = 1_000


def changes_asset(name: str) -> Asset:
    """The asset that gains an event whenever a batch with changes is committed: ``Asset("icefloe://<name>")``."""
    return Asset(f"{_SCHEME}{name}")


def changes_alias(name: str) -> AssetAlias:
    """The outlet of commit. It is an alias, because an asset would start consumers after empty batches too.

    It is an inlet of commit too, which may so look for its own events; an inlet that is an alias starts nothing.
    """
    return AssetAlias(f"{_SCHEME}{name}")


def has_event(name: str, batch: CommittedBatch, committed_before_at: str | None) -> bool:
    """True if a batch that commit found committed has its event; commit was cleared, or another run was faster.

    Airflow keeps the event of a task only if the task succeeds. So a try that was killed right after the commit left
    none, and the next try owes it. If that cannot be known, consumers start twice rather than never.

    Args:
        name: name of the asset.
        batch: the batch.
        committed_before_at: time of the commit that was found, ISO 8601; None: this try committed the batch.
    """
    if committed_before_at is None:
        return False
    since = datetime.fromisoformat(committed_before_at) - _CLOCKS_DIFFER
    wanted = {key: batch.get(key) for key in _BATCH}
    try:
        events = get_current_context()["inlet_events"][changes_alias(name)].after(since.isoformat()).limit(_MOST_EVENTS)
        return any(wanted == {key: event.extra.get(key) for key in _BATCH} for event in events)
    except Exception as error:  # noqa: BLE001 - whatever Airflow answers: the batch is committed
        logger.warning("Airflow does not say if %s has this batch already: %s", _SCHEME + name, one_line(error))
        return False


def scheduling_asset(name: str) -> Asset | AssetNameRef:
    """The asset that ``schedule: {asset: NAME}`` names: another pipeline's asset, or any asset declared elsewhere."""
    return Asset(name) if name.startswith(_SCHEME) else Asset.ref(name=name)
