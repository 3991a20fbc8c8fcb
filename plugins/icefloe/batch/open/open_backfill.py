"""The open backfill that a request without an end began before.

The id of a backfill follows from its range. If a request leaves the end to the head of the branch, the range is decided
by the record of its batch, and a repeated request must find that record although the head has moved on.
"""

import logging

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.requested_range import RequestedRange, backfill_id, start_of
from icefloe.checkpoint.records import OffsetRecord
from icefloe.iceberg.history.loaded_table import LoadedTable

logger = logging.getLogger(__name__)


def open_backfill(
    session: PipelineSession, table: LoadedTable, request: RequestedRange
) -> tuple[PipelineSession, OffsetRecord] | None:
    """The session of the backfill to resume, and its open batch; None: the request begins a new one.

    Takes one listing, and none for a request with an end.

    Args:
        session: session of the pipeline.
        table: the session's table.
        request: the range.
    """
    if request.has_end:
        return None
    start = start_of(table, request, branch=session.pipeline.branch)
    for found in session.checkpoint.open_backfills():
        up_to = found.partition("-")[2].partition("-")[0]
        if found == backfill_id(session.table, session.result_configuration, start, up_to):
            backfill = session.for_backfill(found)
            opened = backfill.checkpoint.look().opened
            # Another run may have ended it since it was listed.
            if opened is not None:
                logger.warning(
                    "%s: resuming backfill %s, which is open and ends at snapshot %s: a request without an end goes on "
                    "with it, and means the head again once it is done", session.pipeline.name, found,
                    opened.up_to_snapshot_id,
                )  # fmt: skip
                return backfill, opened
    return None
