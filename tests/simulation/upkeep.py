"""People and programs around the runs: who sweep, clean up, abandon a batch, expire snapshots and write the table."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final

from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.abandoned_batch import BatchStateError
from icefloe.batch.upkeep.cursor_moves import CursorMove
from icefloe.batch.upkeep.survey import survey_storage
from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.history.history import NotAnAncestorError
from simulation.catalog import delete_files, expire_delivered, expire_looked_at
from simulation.runs import Delivery, abandon, backfill, repeat_tasks, run
from simulation.scheduler import Actor
from simulation.stage import GivenUpError, Stage
from simulation.store import Process

__all__ = ["act_of", "reset", "sweep"]

_LONG: Final = 6_000.0
"""Seconds: more operations than a schedule has, less than the clocks differ."""


def sweep(stage: Stage, actor: Actor, *, older_than_seconds: float) -> None:
    """Sweeps the storage once.

    Args:
        stage: its stage.
        actor: who sweeps.
        older_than_seconds: files of no known batch may go if they are older; an operation takes a second.
    """
    stage.tried(actor, partial(_sweep, stage, older_than_seconds))


def _sweep(stage: Stage, older_than_seconds: float, process: Process) -> None:
    survey = survey_storage(
        stage.deployment.pipeline.storage,
        older_than_seconds=older_than_seconds,
        credentials=Credentials(),
        environ={},
        open_store=process.open_store,
    )
    _, failures = survey.delete()
    # Like the command line, which counts an error for good first.
    for error in sorted((*survey.problems, *failures), key=lambda error: isinstance(error, TransientError)):
        raise error


def _repeated(stage: Stage, actor: Actor, times: int, act: Callable[[], object]) -> None:
    """Does something some times, with others in between, until it is given up."""
    with suppress(GivenUpError):
        for _ in range(times):
            stage.wait(actor)
            act()


def sweep_now_and_then(stage: Stage, actor: Actor) -> None:
    """Somebody sweeps while others are at work."""
    _repeated(stage, actor, 2, lambda: sweep(stage, actor, older_than_seconds=_LONG))


def abandon_now_and_then(stage: Stage, actor: Actor) -> None:
    """Somebody gives up the batch that is open, whatever its runs are doing."""
    _repeated(stage, actor, 6, lambda: stage.tried(actor, partial(abandon, stage)))


def expire_now_and_then(stage: Stage, actor: Actor) -> None:
    """Maintenance of the table. If the pipeline has no pins, it keeps the snapshots that are not delivered."""
    has_pins = stage.deployment.pipeline.pin
    for _ in range(3):
        stage.wait(actor)
        stage.tried_once(actor, expire_looked_at if has_pins else partial(expire_delivered, stage.places))
        stage.tried_once(actor, delete_files)


def roll_back_now_and_then(stage: Stage, random: Random, actor: Actor) -> None:
    """Somebody rolls the table back, or takes a rollback back, and commits something else."""
    for _ in range(random.choice((1, 1, 2))):
        stage.wait(actor)
        stage.tried_once(actor, partial(stage.roll_back, random))
        if random.random() < 0.6:
            stage.tried_once(actor, stage.commit_to_table)


def clean_now_and_then(stage: Stage, random: Random, actor: Actor) -> None:
    """Somebody cleans up after any batch at any time; an open one is refused."""
    for _ in range(3):
        stage.wait(actor)
        if stage.begun:
            begun = random.choice(list(stage.begun.values()))
            stage.tried_once(actor, partial(_clean_up_any, Delivery(stage=stage, actor=actor, begun=begun)))


def _clean_up_any(delivery: Delivery, process: Process) -> None:
    # Asked first: a batch that is refused because it is open may be over by the time that anybody asks again.
    was_over = delivery.stage.reference(delivery.begun, process).is_over()
    try:
        delivery.clean_up(process)
    except TerminalError:
        if was_over:
            raise


def write_table(stage: Stage, actor: Actor) -> None:
    """Commits to the table, now and then."""
    last = stage.world.commits + stage.later_commits
    while stage.world.commits < last:
        stage.tried_once(actor, stage.commit_to_table)


_MOVES: Final = 2


def move_cursor_now_and_then(stage: Stage, random: Random, actor: Actor) -> None:
    """Resets the pipeline or sets its cursor, whatever its runs are doing."""

    def move() -> None:
        snapshot_id = random.choice([None, *reversed(stage.states.lineage(stage.world.heads[-1]))])
        stage.tried(actor, partial(_move, stage, snapshot_id))

    _repeated(stage, actor, _MOVES, move)


def reset(stage: Stage, process: Process) -> None:
    """Does what ``icefloe reset`` does after the operator has agreed."""
    _move(stage, None, process)


def _move(stage: Stage, snapshot_id: int | None, process: Process) -> None:
    """Does what ``icefloe reset`` (no snapshot) or ``icefloe set-cursor`` does after the operator has agreed."""
    session = stage.session(process)
    with stage.errors_count_if_unchanged():
        CursorMove.complete_unfinished(session)
        try:
            move = CursorMove.reset(session) if snapshot_id is None else CursorMove.to(session, snapshot_id)
        except BatchStateError:
            return
        except NotAnAncestorError:
            if not stage.was_rolled_back:
                raise
            return
        if move is not None:
            move.make(session)


_BATCHES: Final = 2


def act_of(name: str, stage: Stage, random: Random) -> Callable[[Actor], object]:
    """The doings of an actor of a scenario.

    Args:
        name: name of the actor.
        stage: its stage.
        random: source of what the actor chooses itself.
    """
    acts = {
        "zombie": partial(repeat_tasks, stage, random),
        "backfill": partial(backfill, stage, random),
        "backfill again": partial(backfill, stage, random),
        "operator": partial(abandon_now_and_then, stage),
        "sweeper": partial(sweep_now_and_then, stage),
        "cleaner": partial(clean_now_and_then, stage, random),
        "expirer": partial(expire_now_and_then, stage),
        "restorer": partial(roll_back_now_and_then, stage, random),
        "mover": partial(move_cursor_now_and_then, stage, random),
        "writer": partial(write_table, stage),
    }
    return acts.get(name, partial(run, stage, batches=_BATCHES))
