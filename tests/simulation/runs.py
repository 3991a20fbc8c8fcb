"""Runs as Airflow makes them: of a pipeline, of a backfill, and of a zombie."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from icefloe.batch.context.references import BatchFinished, ends_well_if_finished
from icefloe.batch.context.session import PipelinePlaces
from icefloe.batch.deliver.commit_batch import clean_up_finished
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.phases import run_coalesce, run_phase
from icefloe.batch.plan.open_and_plan import OpenedBatch, open_and_plan
from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.abandoned_batch import AbandonedBatch, BatchStateError
from icefloe.checkpoint.records import Writer
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.errors import TransientError
from icefloe.flow import FlowTask
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.history.history import NotAnAncestorError
from simulation.scheduler import Actor
from simulation.stage import Begun, GivenUpError, Stage
from simulation.store import Process
from support.pipelines.workshop import InOrder

__all__ = ["Delivery", "abandon", "backfill", "giving_up_what_expired", "repeat_tasks", "run", "run_backfill"]


def abandon(stage: Stage, process: Process) -> None:
    """Gives up the batch that is open, or records it as done if it is whole at the sink."""
    deployment = stage.deployment
    places = PipelinePlaces(
        pipeline=deployment.pipeline,
        credentials=Credentials(),
        writer=Writer(owner=deployment.owner),
        surroundings=stage.surroundings(process),
    )
    with stage.errors_count_if_unchanged(), suppress(BatchStateError):
        end = AbandonedBatch.find(places)
        if end is not None and end.delivered is not None:
            end.make()
        elif end is not None:
            # A run may make it whole at this moment.
            with suppress(TransientError):
                end.make()


@contextmanager
def giving_up_what_expired(stage: Stage, actor: Actor) -> Iterator[None]:
    """Lets the operator give the open batch up, as the sentence says, if its files are gone and never promised."""
    try:
        yield
    except FileGoneError:
        if not _has_expired_before_its_record(stage):
            raise
        stage.tried(actor, partial(abandon, stage))


def _has_expired_before_its_record(stage: Stage) -> bool:
    """True if the open batch ends at a snapshot that expired between a run's look at the table and its record.

    Maintenance spares the range of a recorded batch, and pins hold what was looked at.
    """
    pipeline, places = stage.deployment.pipeline, stage.places
    number = len(places.commits(""))
    return not pipeline.pin and bool(places.open_range(number) & stage.world.expired)


_CORES: Final = 2


def run(stage: Stage, actor: Actor, *, batches: int, request: RequestedRange | None = None) -> bool:
    """Delivers batches, each task as often as Airflow tries it; True if nothing is left to do."""
    try:
        for _ in range(batches):
            with giving_up_what_expired(stage, actor):
                if not _deliver_next(stage, actor, request):
                    return True
    except GivenUpError:
        pass
    return False


def _deliver_next(stage: Stage, actor: Actor, request: RequestedRange | None) -> bool:
    """Delivers one batch; false if there is none."""
    opened = stage.tried(actor, partial(_open, stage, request))
    if opened.plan is None or opened.reference is None:
        return False
    begun = Begun(reference=opened.reference, route=opened.plan.route)
    stage.begun.setdefault(opened.reference.plan_url, begun)
    Delivery(stage=stage, actor=actor, begun=begun).deliver()
    return True


def _open(stage: Stage, request: RequestedRange | None, process: Process) -> OpenedBatch:
    return open_and_plan(stage.session(process), request, cores=_CORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A batch from its plan to its cleanup, as the tasks of the DAG deliver it."""

    stage: Stage
    actor: Actor
    begun: Begun

    @property
    def tasks(self) -> list[FlowTask]:
        """The tasks of the route, one after another."""
        route, then = self.begun.route, self.begun.reference.settings.last_tasks
        return [task for task in route.tasks(then) if task is not FlowTask.NOTHING_TO_DO]

    def deliver(self, *, first: int = 0) -> None:
        """Runs the tasks of the route from the first one on, then commit and cleanup."""
        tasks = self.tasks
        try:
            for number, task in enumerate(tasks[first:], first):
                self._note(number)
                self.stage.tried(self.actor, partial(self._run_task, task))
            self._note(len(tasks))
            self.stage.tried(self.actor, self._commit)
        except BatchFinished:
            pass
        self.stage.tried(self.actor, self.clean_up)

    def clean_up(self, process: Process) -> None:
        """Cleans up after the batch."""
        clean_up_finished(self.stage.reference(self.begun, process))

    def _note(self, tasks: int) -> None:
        url = self.begun.reference.plan_url
        known = self.stage.begun[url]
        self.stage.begun[url] = replace(known, tasks=max(tasks, known.tasks))

    def _run_task(self, task: FlowTask, process: Process) -> None:
        reference, phase = self.stage.reference(self.begun, process), task.phase
        with ends_well_if_finished(reference):
            if phase is None:
                run_coalesce(reference)
            else:
                run_phase(phase, reference, InOrder())

    def _commit(self, process: Process) -> None:
        """Commits as the task of the DAG does: missing results are delivered again first."""
        reference = self.stage.reference(self.begun, process)
        pipeline = replace(reference.settings.pipeline, engine="local")
        PhaseRunner(pipeline=pipeline, engine=InOrder()).commit(reference)


def repeat_tasks(stage: Stage, random: Random, actor: Actor) -> None:
    """Airflow lost sight of a task, or somebody cleared it or marked it as done: its batch goes on from there too."""
    for _ in range(2):
        stage.wait(actor)
        if stage.begun:
            begun = random.choice(list(stage.begun.values()))
            delivery = Delivery(stage=stage, actor=actor, begun=begun)
            # Somebody may mark the delivery as done, so that the commit comes first.
            is_delivering = delivery.tasks[begun.tasks : begun.tasks + 1] == [FlowTask.DELIVER]
            try:
                with giving_up_what_expired(stage, actor):
                    delivery.deliver(first=random.randint(0, begun.tasks + is_delivering))
            except GivenUpError:
                return


def backfill(stage: Stage, random: Random, actor: Actor) -> None:
    """A backfill of any range; a second one is of the same range, as if Airflow had lost sight of the first."""
    if not stage.backfills:
        ids = [None, *reversed(stage.states.lineage(stage.world.heads[-1]))]
        after, up_to = sorted(random.sample(range(len(ids)), 2))
        stage.backfills.append(RequestedRange(after_snapshot_id=ids[after], up_to_snapshot_id=ids[up_to]))
    run_backfill(stage, actor, stage.backfills[0], batches=1)


def run_backfill(stage: Stage, actor: Actor, request: RequestedRange, *, batches: int) -> bool:
    """Delivers a backfill; True if nothing of it is left to do."""
    try:
        return run(stage, actor, batches=batches, request=request)
    except NotAnAncestorError:
        # Refused for good, and rightly so: the table no longer has that range.
        if not stage.was_rolled_back:
            raise
        return True
