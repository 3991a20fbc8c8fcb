"""``pin: true``: pending snapshots are kept from expiring."""

import logging
from contextlib import suppress

from icefloe.batch.context.session import PipelineSession
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.records import OffsetRecord
from icefloe.errors import IcefloeError
from icefloe.iceberg.history.history import ExpiredHistoryError, NotAnAncestorError
from icefloe.iceberg.history.pins import PipelinePins
from icefloe.iceberg.history.published import BranchLog
from icefloe.iceberg.step import StepKind

__all__ = ["pin_pending", "try_to_pin"]

logger = logging.getLogger(__name__)


def pin_pending(session: PipelineSession) -> None:
    """Pins what a pipeline needs from its cursor, or its open batch, to the head of its branch.

    Without ``pin: true`` its pins are let go, if the catalog allows it.
    """
    if not session.pipeline.pin:
        if PipelinePins.may_exist(session.table.history, session.pipeline.name):
            _try_to_let_go(session)
        return
    view = session.checkpoint.look()
    if view.checkpoint_id is None or (view.cursor is None and view.opened is None):
        return
    pins = PipelinePins.of(session.table.history, PipelinePins.branch_of(session.pipeline.name, view.checkpoint_id))
    kept = pins.move(
        session.table.pyiceberg,
        of_branch=session.pipeline.branch,
        since_id=_since(view),
        further=[*_shown_since(session, view), *([] if view.opened is None else _snapshots_of(view.opened))],
    )
    logger.info("%s: %d snapshots are pinned up to %s", session.pipeline.name, len(kept.tagged), kept.branch_head_id)


def try_to_pin(session: PipelineSession) -> None:
    """`pin_pending` for a run that fails anyway, if the catalog lets it."""
    if not session.pipeline.pin:
        return
    try:
        session.checkpoint.refuse_other(session.writer)
        pin_pending(session)
    except IcefloeError as error:
        logger.warning("the snapshots that %s needs are not pinned: %s", session.pipeline.name, error)


def _try_to_let_go(session: PipelineSession) -> None:
    try:
        view = session.checkpoint.look()
        found = PipelinePins.find(session.table.history, session.pipeline.name, view.checkpoint_id)
        if found is not None:
            found.drop(session.table.pyiceberg)
    except IcefloeError as error:
        logger.warning("pin is off, but branch and tags of %s remain: %s", session.pipeline.name, error)


def _since(view: CheckpointView) -> int | None:
    """The oldest snapshot that the pipeline needs; None: all from the start of the history."""
    opened = view.opened
    if opened is None:
        return None if view.cursor is None else view.cursor.snapshot_id
    # A load reads one snapshot, and `from_now` reads none: the batches after them begin at their end.
    is_load = any(step.kind is StepKind.INITIAL for step in opened.spec.steps)
    is_from_now = not opened.spec.steps and opened.spec.after_snapshot_id is None
    return opened.spec.up_to_snapshot_id if is_load or is_from_now else opened.spec.after_snapshot_id


def _shown_since(session: PipelineSession, view: CheckpointView) -> list[int]:
    """Snapshots that ``follow: log`` needs in addition to the way to the head: readers saw them meanwhile."""
    pipeline, cursor = session.pipeline, view.cursor if view.opened is None else view.opened.ending.cursor
    if not pipeline.follows_log or cursor is None or cursor.snapshot_id is None:
        return []
    with suppress(ExpiredHistoryError, NotAnAncestorError):
        passage = BranchLog.passage(
            session.with_fresh_table().table,
            branch=pipeline.branch,
            after_snapshot_id=cursor.snapshot_id,
            made_current_at_ms=cursor.made_current_at_ms,
        )
        states = passage.published or ()
        return [each.snapshot_id for state in states for each in (*(state.commits or ()), state.snapshot)]
    return []


def _snapshots_of(offset: OffsetRecord) -> list[int]:
    ends = [offset.spec.after_snapshot_id, offset.spec.up_to_snapshot_id]
    starts = [step.start_snapshot_id for step in offset.spec.steps]
    states = [snapshot_id for step in offset.spec.steps for snapshot_id in (step.end_snapshot_id, *step.snapshot_ids)]
    return [snapshot_id for snapshot_id in (*ends, *starts, *states) if snapshot_id is not None]
