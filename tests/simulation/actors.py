"""The actors by their names."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from simulation.moves import move_cursor_now_and_then
from simulation.runs import backfill, repeat_tasks, run
from simulation.scheduler import Actor
from simulation.stage import Stage
from simulation.upkeep import (
    abandon_now_and_then,
    clean_now_and_then,
    expire_now_and_then,
    roll_back_now_and_then,
    sweep_now_and_then,
    write_table,
)

__all__ = ["act_of"]

_BATCHES: Final = 2


def act_of(name: str, stage: Stage, random: Random) -> Callable[[Actor], object]:
    """The doings of an actor of a scenario.

    Args:
        name: name of the actor.
        stage: its stage.
        random: source of what the actor chooses itself.
    """
    match name:
        case "zombie":
            return partial(repeat_tasks, stage, random)
        case "backfill" | "backfill again":
            return partial(backfill, stage, random)
        case "operator":
            return partial(abandon_now_and_then, stage)
        case "sweeper":
            return partial(sweep_now_and_then, stage)
        case "cleaner":
            return partial(clean_now_and_then, stage, random)
        case "expirer":
            return partial(expire_now_and_then, stage)
        case "restorer":
            return partial(roll_back_now_and_then, stage, random)
        case "mover":
            return partial(move_cursor_now_and_then, stage, random)
        case "writer":
            return partial(write_table, stage)
    return partial(run, stage, batches=_BATCHES)
