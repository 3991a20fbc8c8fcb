"""The stage of the actors: their pipeline, the batches that were begun, and the processes that come and go."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.context.surroundings import Surroundings
from icefloe.batch.credentials import Credentials
from icefloe.batch.open.range_request import RangeRequest
from icefloe.checkpoint.ownership import OtherOwnerError
from icefloe.checkpoint.records import Writer
from icefloe.errors import TransientError
from icefloe.flow import Route
from icefloe.iceberg.table import Table
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.claim import PathClaimedError
from icefloe.sinks.whole_batch import PathInUseError
from simulation.catalog import present_table
from simulation.scenario import PIPELINE
from simulation.scheduler import Actor
from simulation.store import Killed, Process
from simulation.table import TableStates
from simulation.world import World

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
        last_commits: number of commits that the table will have.
        begun: planned batches by the URL of their plan.
        backfills: requests of backfills that were begun.
    """

    world: World
    states: TableStates
    deployment: Deployment
    last_commits: int
    intruders: Mapping[str, Deployment] = field(default_factory=dict)
    begun: dict[str, Begun] = field(default_factory=dict)
    backfills: list[RangeRequest] = field(default_factory=list)

    def backfill_folders(self) -> list[str]:
        """``backfills/<id>/`` of each backfill that was opened."""
        return sorted({match[1] for key in self.world.objects if (match := _BACKFILL.match(key)) is not None})

    def tried(self, actor: Actor, call: Callable[[Process], Result]) -> Result:
        """The result of a task, tried again by another process after a kill and after an error that may go away.

        Raises:
            GivenUpError: no try came to an end.
        """
        for _ in range(_TRIES):
            try:
                return call(Process(actor, self.world))
            except (Killed, TransientError):
                continue
            except (OtherOwnerError, PathClaimedError, PathInUseError):
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

    def session(self, process: Process) -> PipelineSession:
        """The pipeline as a process opens it."""
        surroundings, deployment = self.surroundings(process), self.deployment_of(process.actor)
        pipeline = deployment.pipeline
        return PipelineSession(
            pipeline=pipeline,
            credentials=Credentials(),
            table=surroundings.load_table(pipeline.catalog, pipeline.table),
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

        process.do("commit", "table", add)

    def surroundings(self, process: Process) -> Surroundings:
        """The surroundings of a process."""

        def load(
            catalog: str | Mapping[str, str],
            table: str,
            *,
            properties: Mapping[str, str] | None = None,
            allowed_locations: Sequence[str] = (),
        ) -> Table:
            return process.do("load", "table", load_now)

        def load_now() -> Table:
            if self.deployment.pipeline.pin:
                return present_table(self.states, process)
            return self.states.tables[self.world.commits]

        return Surroundings(open_store=process.open_store, load_table=load, new_name=self.world.new_name)
