"""Actors on threads that hold one baton: exactly one of them runs, and it may lose the baton at each operation only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Final, NoReturn

from simulation.decisions import END, Decisions, Switch

__all__ = ["THREAD_PREFIX", "Actor", "EndlessScheduleError", "Scheduler"]

THREAD_PREFIX: Final = "simulated-"
_MOST_STEPS: Final = 20_000


class EndlessScheduleError(Exception):
    """A schedule does not end: its actors go on without getting anywhere."""


class Stopped(BaseException):
    """The simulation is over: every thread of it ends. No `Exception`, so that no code under test catches it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Actor:
    """One thread of a simulation.

    Attributes:
        name: unique in its simulation.
        act: what it does, from its first operation to its last.
        operations: number of its operations so far.
    """

    name: str
    act: Callable[["Actor"], object]
    operations: int = 0
    baton: Lock = field(default_factory=Lock)
    thread: Thread | None = None


class Scheduler:
    """Hands the baton on as the decisions of a schedule say.

    Args:
        decisions: says at which operation of which actor something happens.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._alive: list[Actor] = []
        self._others: dict[str, tuple[str, ...]] = {}
        self._done = Lock()
        self._error: BaseException | None = None
        self.steps = 0

    def run(self, actors: Sequence[Actor]) -> None:
        """Runs actors until all have ended, beginning with the first.

        Raises:
            BaseException: the first exception that an actor did not catch.
        """
        self._error = None
        self._let_live(actors)
        self._done.acquire()
        for actor in actors:
            actor.baton.acquire()
            actor.thread = Thread(target=self._live, args=(actor,), name=f"{THREAD_PREFIX}{actor.name}", daemon=True)
            actor.thread.start()
        actors[0].baton.release()
        with self._done:
            pass
        for actor in actors:
            actor.thread.join()
        if self._error is not None:
            raise self._error

    def end_with(self, error: Exception) -> NoReturn:
        """Called by an actor to end the simulation with an error, which no code under test gets to see."""
        self._error = self._error or error
        raise Stopped

    def stop_deciding(self) -> None:
        """From now on nothing happens but what the actors do."""
        self._decisions = Decisions()

    def yield_at(self, actor: Actor, *, is_outward: bool = False) -> object:
        """Called by an actor before each of its operations; returns the fault that is to strike it, if any.

        Other actors may have gone on, for any number of operations, when this returns.
        """
        if self._error is not None:
            raise Stopped
        self.steps += 1
        actor.operations += 1
        if self.steps > _MOST_STEPS:
            raise EndlessScheduleError(f"no end after {_MOST_STEPS} operations")
        decided = self._decisions.at(actor.name, actor.operations, self._others[actor.name], is_outward=is_outward)
        if isinstance(decided, Switch):
            self._hand_to(decided.to, actor)
            return None
        return decided

    def _let_live(self, actors: Sequence[Actor]) -> None:
        self._alive = list(actors)
        names = [actor.name for actor in actors]
        self._others = {name: tuple(other for other in names if other != name) for name in names}

    def _hand_to(self, name: str, giver: Actor) -> None:
        taker = next((each for each in self._alive if each.name == name), giver)
        if taker is not giver:
            taker.baton.release()
            giver.baton.acquire()
        if self._error is not None:
            raise Stopped

    def _live(self, actor: Actor) -> None:
        actor.baton.acquire()
        try:
            if self._error is None:
                actor.act(actor)
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller of the simulation gets it
            self._error = self._error or error
        others = self._others[actor.name]
        self._let_live([each for each in self._alive if each is not actor])
        if not self._alive:
            self._done.release()
            return
        decided = self._decisions.at(actor.name, END, others)
        chosen = decided.to if isinstance(decided, Switch) else ""
        next((each for each in self._alive if each.name == chosen), self._alive[0]).baton.release()
