"""Actors on threads that hold one baton: exactly one of them runs, and it may lose the baton at each operation only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from threading import Lock, Thread
from typing import Final, NoReturn

__all__ = ["THREAD_PREFIX", "Actor", "Decision", "Drawn", "Fault", "Place", "Remembered", "Scheduler"]

END: Final = -1
"""In place of the number of an operation: the end of an actor."""
Place = tuple[str, int]
"""Name of an actor and the number of one of its operations, from 1."""


class Fault(StrEnum):
    """A fault of one operation.

    A fault that makes no sense for an operation, such as a stale answer of a write, strikes it as `REFUSED`.
    """

    REFUSED = "refused"
    """503 or 409 until the client gives up: the operation has no effect."""
    LOST = "lost"
    """The operation has its effect, and its answer is lost: the client gives up."""
    RESENT = "resent"
    """A create has its effect, its answer is lost, and the client sends it again: it finds a value, its own."""
    DELAYED = "delayed"
    """The client gives up, and the operation has its effect some operations later."""
    STALE = "stale"
    """A listing shows the past."""
    DAMAGED = "damaged"
    """The store loses a file of a map output, or a part that no manifest names yet, before the operation."""
    KILLED = "killed"
    """The process ends before the operation."""
    KILLED_AFTER = "killed after"
    """The process ends after the operation, before it sees the answer."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The actor is stopped before its operation, and another one goes on."""

    to: str

    def __str__(self) -> str:
        """The decision in words, for people."""
        return f"stopped, {self.to} goes on"


Decision = Switch | Fault


@dataclass(slots=True, kw_only=True)
class Drawn:
    """Decisions that are drawn from a seed, each one remembered in ``taken``.

    Attributes:
        random: source of the decisions.
        switches: share of the operations at which an actor is stopped.
        faults: share of the operations that a fault strikes.
        asleep: actors that are stopped until all others have ended or sleep too, as a zombie is.
    """

    random: Random
    switches: float
    faults: float
    most_faults: int
    taken: dict[Place, Decision] = field(default_factory=dict)
    asleep: set[str] = field(default_factory=set)

    def at(self, actor: str, operation: int, others: Sequence[str], *, is_outward: bool = False) -> Decision | None:
        """The decision at an operation of an actor, or at its `END`.

        Args:
            actor: name of the actor.
            operation: number of the operation.
            others: names of the other actors that have not ended.
            is_outward: True if others see the operation outside of icefloe's own folders.
        """
        self.asleep.discard(actor)
        drawn = self.random.random()
        decision: Decision | None = None
        # A run that is stopped as it begins comes back with an old view of everything. A run that delivers has few
        # operations, and each of them matters.
        switches = _OFTEN * self.switches if operation <= _EARLY or is_outward else self.switches
        if others and (drawn < switches or operation == END):
            awake = [other for other in others if other not in self.asleep]
            decision = Switch(self.random.choice(awake or others))
            if awake and self.random.random() < (_SLEEPING if is_outward else _SLEEPING / 4):
                self.asleep.add(actor)
        elif operation != END and 1 - drawn < self.faults and self.most_faults:
            self.most_faults -= 1
            decision = self.random.choice(_FAULTS)
        if decision is not None:
            self.taken[actor, operation] = decision
        return decision


_EARLY: Final = 4
_OFTEN: Final = 4
_SLEEPING: Final = 0.4
_FAULTS: Final = (*Fault, Fault.DAMAGED, Fault.DAMAGED)


@dataclass(slots=True, frozen=True)
class Remembered:
    """Decisions of an earlier run, some of them, or none."""

    taken: Mapping[Place, Decision]

    def at(
        self,
        actor: str,
        operation: int,
        others: Sequence[str],
        *,
        is_outward: bool = False,  # noqa: ARG002 - it has had its effect
    ) -> Decision | None:
        """The decision at an operation, if there was one and its actor still lives."""
        decision = self.taken.get((actor, operation))
        return None if isinstance(decision, Switch) and decision.to not in others else decision


Decisions = Drawn | Remembered
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
        self._decisions: Decisions = decisions
        self._alive: list[Actor] = []
        self._others: dict[str, tuple[str, ...]] = {}
        self._done = Lock()
        self._error: BaseException | None = None
        self.steps = 0

    def run(self, actors: Sequence[Actor]) -> None:
        """Runs actors until all have ended, beginning with the first."""
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
        self._decisions = Remembered({})

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
