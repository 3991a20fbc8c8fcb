"""An operator who moves the cursor: who resets the pipeline, or sets its cursor to a snapshot."""

from functools import partial
from random import Random
from typing import Final

from icefloe.batch.context.end_batch import BatchStateError
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.upkeep.cursor_moves import CursorChange, PipelineReset, complete_unfinished, make_move
from icefloe.iceberg.history.history import UnknownSnapshotError
from simulation.scheduler import Actor
from simulation.stage import GivenUpError, Stage
from simulation.store import Process

__all__ = ["move_cursor_now_and_then", "reset"]

_MOVES: Final = 2


def move_cursor_now_and_then(stage: Stage, random: Random, actor: Actor) -> None:
    """Resets the pipeline or sets its cursor, whatever its runs are doing."""
    for _ in range(_MOVES):
        stage.wait(actor)
        snapshot_id = random.choice([None, *reversed(stage.states.lineage(stage.world.heads[-1]))])
        try:
            stage.tried(actor, partial(_move, stage, snapshot_id))
        except GivenUpError:
            return


def reset(stage: Stage, process: Process) -> None:
    """Does what ``icefloe reset`` does after the operator has agreed."""
    _move(stage, None, process)


def _move(stage: Stage, snapshot_id: int | None, process: Process) -> None:
    """Does what ``icefloe reset`` (no snapshot) or ``icefloe set-cursor`` does after the operator has agreed."""
    session = stage.session(process)
    with stage.errors_count_if_unchanged():
        _move_looked_at(stage, session, snapshot_id)


def _move_looked_at(stage: Stage, session: PipelineSession, snapshot_id: int | None) -> None:
    complete_unfinished(session)
    try:
        change = PipelineReset.plan(session) if snapshot_id is None else CursorChange.plan(session, snapshot_id)
    except BatchStateError:
        return
    except UnknownSnapshotError:
        if not stage.was_rolled_back:
            raise
        return
    if isinstance(change, PipelineReset):
        change.make(session)
    elif change is not None:
        make_move(session, change.offset)
