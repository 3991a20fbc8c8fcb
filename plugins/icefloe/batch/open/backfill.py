"""Backfill ids, which name the places of the batch of a requested range."""

import hashlib
import json

from icefloe.batch.context.session import PipelineSession
from icefloe.iceberg.steps.steps import SnapshotRange
from icefloe.iceberg.table_identity import table_uuid
from icefloe.pipeline.recorded_configuration import result_configuration

__all__ = ["backfill_id"]


def backfill_id(session: PipelineSession, snapshots: SnapshotRange) -> str:
    """Id of a backfill. It follows from table, range and result configuration, so that a rerun finds its batch."""
    meaning = json.dumps([table_uuid(session.table), result_configuration(session.pipeline)], sort_keys=True)
    digest = hashlib.sha256(meaning.encode()).hexdigest()[:8]
    after = "start" if snapshots.after_snapshot_id is None else snapshots.after_snapshot_id
    return f"{after}-{snapshots.up_to_snapshot_id}-{digest}"
