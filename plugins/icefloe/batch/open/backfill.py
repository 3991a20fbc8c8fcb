"""Backfills: where the batch of a range that was asked for has its place."""

import hashlib
import json

from icefloe.batch.context.session import PipelineSession
from icefloe.iceberg.steps.steps import SnapshotRange
from icefloe.iceberg.table_identity import table_uuid
from icefloe.pipeline.configuration import result_configuration

__all__ = ["backfill_id"]


def backfill_id(session: PipelineSession, snapshots: SnapshotRange) -> str:
    """The id of a backfill; it follows from table, range and what the changes mean, so that a rerun finds its batch."""
    meaning = json.dumps([table_uuid(session.table), result_configuration(session.pipeline)], sort_keys=True)
    digest = hashlib.sha256(meaning.encode()).hexdigest()[:8]
    after = "start" if snapshots.after_snapshot_id is None else snapshots.after_snapshot_id
    return f"{after}-{snapshots.up_to_snapshot_id}-{digest}"
