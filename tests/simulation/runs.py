"""The actors: runs as Airflow makes them, a zombie, backfills, people who clean up or abandon, and a writer."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from icefloe.batch.commit.cleanup import clean_up_finished
from icefloe.batch.commit.commit_batch import commit_batch
from icefloe.batch.commit.delivered_batch import UndeliveredError
from icefloe.batch.commit.empty_end import DeliveredError
from icefloe.batch.context.finished import BatchFinished, ends_well_if_finished
from icefloe.batch.credentials import Credentials
from icefloe.batch.open.range_request import RangeRequest
from icefloe.batch.operations.abandoned_batch import AbandonablePipeline, CursorMoveOpenError, DeliveredEnd
from icefloe.batch.plan.open_and_plan import OpenedBatch, open_and_plan
from icefloe.batch.run.phases import run_phase
from icefloe.batch.run.run_coalesce import run_coalesce
from icefloe.batch.sweep.survey import survey_storage
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import ROUTE_TASKS, FlowTask, phase_of
from simulation.catalog import expire_snapshots
from simulation.moves import move_cursor_now_and_then
from simulation.scheduler import Actor
from simulation.stage import Begun, GivenUpError, Stage
from simulation.store import Process
from support.pipelines.workshop import InOrder

__all__ = ["act_of", "run", "sweep"]

_CORES: Final = 2
_BATCHES: Final = 2
_LONG: Final = 6_000.0
"""Seconds: more operations than a schedule has, less than the clocks differ."""


def act_of(name: str, stage: Stage, random: Random) -> Callable[[Actor], object]:
    """The doings of an actor of a scenario.

    Args:
        name: name of the actor.
        stage: its stage.
        random: source of what the actor chooses itself.
    """
    match name:
        case "zombie":
            return partial(_repeat_tasks, stage, random)
        case "backfill" | "backfill again":
            return partial(_backfill, stage, random)
        case "operator":
            return partial(_abandon_now_and_then, stage)
        case "sweeper":
            return partial(_sweep_now_and_then, stage)
        case "cleaner":
            return partial(_clean, stage, random)
        case "expirer":
            return partial(_expire_now_and_then, stage)
        case "mover":
            return partial(move_cursor_now_and_then, stage, random)
        case "writer":
            return partial(_write_table, stage)
    return partial(run, stage, batches=_BATCHES)


def run(stage: Stage, actor: Actor, *, batches: int, request: RangeRequest | None = None) -> bool:
    """Delivers batches, each task as often as Airflow tries it; True if nothing is left to do."""
    try:
        for _ in range(batches):
            opened = stage.tried(actor, partial(_open, stage, request))
            if opened.plan is None or opened.reference is None:
                return True
            begun = Begun(reference=opened.reference, route=opened.route)
            stage.begun.setdefault(opened.reference.plan_url, begun)
            _Delivery(stage=stage, actor=actor, begun=begun).deliver()
    except GivenUpError:
        pass
    return False


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


def _open(stage: Stage, request: RangeRequest | None, process: Process) -> OpenedBatch:
    return open_and_plan(stage.session(process), request, cores=_CORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delivery:
    """A batch from its plan to its cleanup, as the tasks of the DAG deliver it."""

    stage: Stage
    actor: Actor
    begun: Begun

    def deliver(self, *, first: int = 0) -> None:
        """Runs the tasks of the route from the first one on, then commit and cleanup."""
        tasks = [task for task in ROUTE_TASKS[self.begun.route] if task is not FlowTask.NOTHING_TO_DO]
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
        reference, phase = self.stage.reference(self.begun, process), phase_of(task)
        with ends_well_if_finished(reference):
            if phase is None:
                run_coalesce(reference, environ={})
            else:
                run_phase(phase, reference, InOrder(), environ={})

    def _commit(self, process: Process) -> None:
        """Commits as the task of the DAG does: missing results are delivered again first."""
        reference = self.stage.reference(self.begun, process)
        with ends_well_if_finished(reference):
            try:
                commit_batch(reference.open())
            except UndeliveredError as error:
                run_phase(error.phase, reference, InOrder(), environ={})
                commit_batch(reference.open())


def _repeat_tasks(stage: Stage, random: Random, actor: Actor) -> None:
    """Airflow lost sight of a task, or somebody cleared it: its batch goes on from there too."""
    for _ in range(2):
        stage.wait(actor)
        if stage.begun:
            begun = random.choice(list(stage.begun.values()))
            try:
                _Delivery(stage=stage, actor=actor, begun=begun).deliver(first=random.randint(0, begun.tasks))
            except GivenUpError:
                return


def _backfill(stage: Stage, random: Random, actor: Actor) -> None:
    """A backfill of any range; a second one is of the same range, as if Airflow had lost sight of the first."""
    if not stage.backfills:
        ids = [each for each, place in stage.states.places.items() if place <= stage.world.commits]
        after, up_to = sorted(random.sample(range(len(ids)), 2))
        stage.backfills.append(RangeRequest(after_snapshot_id=ids[after], up_to_snapshot_id=ids[up_to]))
    run(stage, actor, batches=1, request=stage.backfills[0])


def _sweep_now_and_then(stage: Stage, actor: Actor) -> None:
    """Somebody sweeps while others are at work."""
    for _ in range(2):
        stage.wait(actor)
        try:
            sweep(stage, actor, older_than_seconds=_LONG)
        except GivenUpError:
            return


def _abandon_now_and_then(stage: Stage, actor: Actor) -> None:
    """Somebody gives up the batch that is open, whatever its runs are doing."""
    for _ in range(6):
        stage.wait(actor)
        try:
            stage.tried(actor, partial(_abandon, stage))
        except GivenUpError:
            return


def _abandon(stage: Stage, process: Process) -> None:
    deployment = stage.deployment
    place = AbandonablePipeline(
        pipeline=deployment.pipeline,
        credentials=Credentials(),
        writer=Writer(owner=deployment.owner),
        surroundings=stage.surroundings(process),
    )
    try:
        end = place.find()
    except CursorMoveOpenError:
        return
    if isinstance(end, DeliveredEnd):
        place.record_as_done(end)
    elif end is not None:
        # A run may make it whole at this moment.
        with suppress(DeliveredError):
            place.abandon(end)


def _expire_now_and_then(stage: Stage, actor: Actor) -> None:
    """Maintenance of the table that knows nothing of icefloe."""
    for _ in range(3):
        stage.wait(actor)
        stage.tried_once(actor, expire_snapshots)


def _clean(stage: Stage, random: Random, actor: Actor) -> None:
    """Somebody cleans up after any batch at any time; an open one is refused."""
    for _ in range(3):
        stage.wait(actor)
        if stage.begun:
            begun = random.choice(list(stage.begun.values()))
            stage.tried_once(actor, partial(_clean_up_any, _Delivery(stage=stage, actor=actor, begun=begun)))


def _clean_up_any(delivery: _Delivery, process: Process) -> None:
    # Asked first: a batch that is refused because it is open may be over by the time that anybody asks again.
    was_over = delivery.stage.reference(delivery.begun, process).is_over()
    try:
        delivery.clean_up(process)
    except TerminalError:
        if was_over:
            raise


def _write_table(stage: Stage, actor: Actor) -> None:
    """Commits to the table, now and then."""
    while stage.world.commits < stage.last_commits:
        stage.tried_once(actor, stage.commit_to_table)
