"""The stage of the actors: their pipeline, the batches that were begun, and the processes that come and go."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from random import Random
from typing import Final, TypeVar

from icefloe.batch.context.references import BatchReference, Surroundings
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.run_settings import Credentials
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import Route
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.table import Table
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.sink import SupersededError
from simulation.catalog import present_table
from simulation.promises import CHECKPOINT, Places
from simulation.scenario import PIPELINE
from simulation.scheduler import Actor
from simulation.store import Killed, Process
from simulation.table import TableStates
from simulation.world import World
from support.sinks.rows_of_keys import TakenError

__all__ = ["Begun", "Deployment", "GivenUpError", "Stage"]

_TRIES: Final = 4
_BACKFILL: Final = re.compile(rf"storage/checkpoints/{PIPELINE}/(backfills/[^/]+/)offsets/")
Result = TypeVar("Result")


class GivenUpError(Exception):
    """A task failed as often as Airflow tries it, or was refused because others own the checkpoint or the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A pipeline as an actor runs it.

    Attributes:
        owner: name of the deployment, as in ``ICEFLOE_OWNER``; None: none.
        takes_over: True if its runs make the checkpoint their own.
    """

    pipeline: Pipeline
    owner: str | None = None
    takes_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A batch that some run has planned, and how many of its tasks were begun."""

    reference: BatchReference
    route: Route
    tasks: int = 0


@dataclass(slots=True, kw_only=True)
class Stage:
    """The stage of the actors.

    Attributes:
        states: of the table.
        deployment: pipeline of all actors but the intruders.
        intruders: pipelines by the names of actors that got the same checkpoint, or the same sink, by mistake.
        later_commits: number of commits that are made while the actors are at work.
        begun: planned batches by the URL of their plan.
        backfills: requests of backfills that were begun.
    """

    world: World
    states: TableStates
    deployment: Deployment
    later_commits: int
    intruders: Mapping[str, Deployment] = field(default_factory=dict)
    begun: dict[str, Begun] = field(default_factory=dict)
    backfills: list[RequestedRange] = field(default_factory=list)

    @property
    def places(self) -> Places:
        """The documents of the pipeline's checkpoint."""
        return Places(objects=self.world.objects)

    @property
    def was_rolled_back(self) -> bool:
        """True if the table no longer has all commits that were made, or had lost some for a time."""
        heads = self.world.heads
        return len(heads) > len(self.states.lineage(heads[-1] if heads else None))

    def backfill_folders(self) -> list[str]:
        """``backfills/<id>/`` of each backfill that was opened."""
        return sorted({match[1] for key in self.world.objects if (match := _BACKFILL.match(key)) is not None})

    def tried(self, actor: Actor, call: Callable[[Process], Result]) -> Result:
        """The result of a task, tried again by another process after a kill and after an error that may go away."""
        for _ in range(_TRIES):
            try:
                return call(Process(actor, self.world))
            except (Killed, TransientError):
                continue
            except (
                TerminalError, SupersededError,
                TakenError,
            ):  # fmt: skip
                if not self.intruders:
                    raise
                break
        raise GivenUpError

    def tried_once(self, actor: Actor, call: Callable[[Process], object]) -> None:
        """Calls something in a process of its own, and does not mind if it fails."""
        with suppress(Killed, TransientError):
            call(Process(actor, self.world))

    def wait(self, actor: Actor) -> None:
        """Lets others go on."""
        self.tried_once(actor, lambda process: process.do("wait", "", lambda: None))

    @contextmanager
    def errors_count_if_unchanged(self) -> Iterator[None]:
        """As on the command line; the look takes no turn."""
        before = self._records()
        try:
            yield
        except TerminalError as error:
            if self._records() == before:
                raise
            raise TransientError(error.sentence) from error

    def session(self, process: Process) -> PipelineSession:
        """The pipeline as a process opens it."""
        surroundings, deployment = self.surroundings(process), self.deployment_of(process.actor)
        pipeline = deployment.pipeline
        return PipelineSession(
            pipeline=pipeline,
            credentials=Credentials(),
            table=LoadedTable(surroundings.load_table(pipeline.catalog, pipeline.table)),
            writer=Writer(owner=deployment.owner),
            takes_over=deployment.takes_over,
            surroundings=surroundings,
        )

    def deployment_of(self, actor: Actor) -> Deployment:
        """The pipeline that an actor runs."""
        return self.intruders.get(actor.name, self.deployment)

    def reference(self, begun: Begun, process: Process) -> BatchReference:
        """The reference to a batch as a process has it."""
        return replace(begun.reference, surroundings=self.surroundings(process))

    def commit_to_table(self, process: Process) -> None:
        """Adds a commit to the table."""

        def add() -> None:
            self.world.commits += 1
            commit = self.states.next_commit(tuple(self.world.heads))
            if commit is not None:
                self.world.heads.append(commit)

        process.do("commit", "table", add)

    def roll_back(self, random: Random, process: Process) -> None:
        """Lets the table's main branch point to an earlier state, or to one that a rollback left behind.

        Not to one whose way from here has expired in part: nobody keeps the steps to a state that was left behind.
        """
        world = self.world

        def move() -> None:
            earlier = self.states.lineage(world.heads[-1])[1:]
            known = [each for each in (*earlier, *earlier, *set(world.heads)) if self._is_reached(each)]
            target = random.choice(sorted(known))
            if target != world.heads[-1]:
                world.heads.append(target)

        process.do("roll back", "table", move)

    def _is_reached(self, commit: int) -> bool:
        """True if a commit is there, and each snapshot between it and the history of the main branch."""
        present = set(self.states.lineage(self.world.heads[-1]))
        way = takewhile(lambda each: each not in present, self.states.lineage(commit))
        made = [snapshot.snapshot_id for each in way for snapshot in self.states.made[each]]
        return self.world.expired.isdisjoint([commit, *made])

    def surroundings(self, process: Process) -> Surroundings:
        """The surroundings of a process."""

        def load(
            catalog: str | Mapping[str, str],
            table: str,
            *,
            properties: Mapping[str, str] | None = None,
            allowed_locations: Sequence[str] = (),
        ) -> Table:
            return process.do("load", "table", lambda: present_table(self.states, process))

        return Surroundings(
            open_store=process.open_store, load_table=load, new_name=self.world.new_name, new_key=self.world.new_key
        )

    def _records(self) -> int:
        return sum(key.startswith((f"{CHECKPOINT}offsets/", f"{CHECKPOINT}commits/")) for key in self.world.objects)
