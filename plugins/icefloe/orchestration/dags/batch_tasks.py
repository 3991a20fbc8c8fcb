"""The tasks of one batch."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Asset, AssetAlias, BaseOperator, XComArg, get_current_context, task
from airflow.sdk.definitions.asset import AssetNameRef
from airflow.sdk.exceptions import AirflowSkipException

from icefloe.errors import one_line
from icefloe.flow import ROUTE_TASKS, FlowTask, Phase, Route, phase_of, route_edges
from icefloe.orchestration.dags.documentation import TASK_PAGES
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.plugin_parts import BatchLink
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from icefloe.orchestration.tasks.task_documents import CommittedBatch, PlanResult, given_by_plan
from icefloe.pipeline.model import Pipeline

if TYPE_CHECKING:
    from icefloe.batch.open.next_range import RequestedRange


logger = logging.getLogger(__name__)

# Airflow's page of XComs takes a string of digits for a number and rounds it; inside a mapping it stays a string.
_MULTIPLE_OUTPUTS: Final = False

_AFTER_ROUTES: Final = "none_failed_min_one_success"

RangeOfRun: TypeAlias = "Callable[[Mapping[str, object]], RequestedRange | None]"
"""Reads a run's configuration; None: the next batch of the pipeline."""


def add_batch_tasks(pipeline: Pipeline, range_of_run: RangeOfRun, *, asset_name: str, delivers: bool) -> BaseOperator:
    """Adds plan to cleanup to the current DAG and returns plan.

    Args:
        range_of_run: refuses a run's configuration or reads a range from it.
        delivers: True if the staged batch is delivered to the sink.
    """
    plan = _plan(pipeline, range_of_run)
    edges = [edge for route in Route for edge in route_edges(route, delivers=delivers)]
    used = {task for edge in edges for task in edge}
    made = {
        FlowTask.ROUTE: _route(pipeline, plan),
        **{task: _phase(pipeline, phase) for task in FlowTask if (phase := phase_of(task)) and task in used},
        FlowTask.COALESCE: _coalesce(pipeline),
        FlowTask.NOTHING_TO_DO: EmptyOperator(task_id="nothing_to_do", doc_md=TASK_PAGES[FlowTask.NOTHING_TO_DO]),
        FlowTask.COMMIT: _commit(pipeline, asset_name),
        FlowTask.CLEANUP: _cleanup(pipeline),
    }
    for before, after in edges:
        made[before] >> made[after]
    made[FlowTask.COMMIT] >> made[FlowTask.CLEANUP]
    for task_of_ours in (plan, made[FlowTask.COALESCE], made[FlowTask.COMMIT], made[FlowTask.CLEANUP]):
        task_of_ours.operator.operator_extra_links = (BatchLink(),)
    return plan.operator


def _phase(pipeline: Pipeline, phase: Phase) -> BaseOperator:
    pool = {"pool": pipeline.spark.pool} if pipeline.spark.pool else {}
    # Of the three ways to deliver, two are skipped.
    joins = {"trigger_rule": _AFTER_ROUTES} if phase is Phase.DELIVER else {}
    return SparkPhaseOperator(
        task_id=phase.value, doc_md=TASK_PAGES[phase], pipeline=pipeline, phase=phase.value, **pool, **joins
    )


def _plan(pipeline: Pipeline, range_of_run: RangeOfRun) -> XComArg:
    @task(multiple_outputs=_MULTIPLE_OUTPUTS, doc_md=TASK_PAGES["plan"])
    def plan() -> Mapping[str, object]:
        with airflow_failures("plan", pipeline):
            from icefloe.orchestration.tasks.calls import plan_batch

            run = get_current_context()["dag_run"]
            return plan_batch(pipeline, range_of_run(run.conf or {}), dag_id=run.dag_id)

    return plan()


def _route(pipeline: Pipeline, plan: XComArg) -> XComArg:
    @task.branch(doc_md=TASK_PAGES["route"])
    def route(plan_result: PlanResult | None) -> str:
        with airflow_failures("route", pipeline):
            return ROUTE_TASKS[Route(given_by_plan(plan_result)["route"])][0].value

    return route(plan)


def _coalesce(pipeline: Pipeline) -> XComArg:
    @task(multiple_outputs=_MULTIPLE_OUTPUTS, doc_md=TASK_PAGES["coalesce"])
    def coalesce() -> dict[str, object]:
        with airflow_failures("coalesce", pipeline):
            from icefloe.orchestration.tasks.calls import coalesce_batch

            return coalesce_batch(pipeline, _plan_result())

    return coalesce()


def _commit(pipeline: Pipeline, asset_name: str) -> XComArg:
    @task(
        # Of the three ways to commit, two are skipped.
        trigger_rule=_AFTER_ROUTES,
        inlets=[changes_alias(asset_name)],
        outlets=[changes_alias(asset_name)],
        multiple_outputs=_MULTIPLE_OUTPUTS,
        doc_md=TASK_PAGES["commit"],
    )
    def commit() -> CommittedBatch:
        with airflow_failures("commit", pipeline):
            from icefloe.orchestration.tasks.calls import commit as commit_batch

            plan_result = _plan_result()
            if not plan_result["plan_uri"]:  # a batch without changes takes the same route, but has a plan
                logger.info("%s has no batch to commit; the log of plan says why", pipeline.name)
                raise AirflowSkipException("no batch")
            batch, committed_before_at = commit_batch(pipeline, plan_result)
        if any(batch["counts"].values()) and not has_event(asset_name, batch, committed_before_at):
            events = get_current_context()["outlet_events"][changes_alias(asset_name)]
            events.add(changes_asset(asset_name), extra=batch)
        return batch

    return commit()


def _cleanup(pipeline: Pipeline) -> XComArg:
    @task(doc_md=TASK_PAGES["cleanup"])
    def cleanup() -> None:
        with airflow_failures("cleanup", pipeline):
            from icefloe.orchestration.tasks.calls import clean_up_batch

            clean_up_batch(pipeline, _plan_result())

    return cleanup()


def _plan_result() -> PlanResult:
    # Not as an argument: the edge from plan would count as the one success commit asks for.
    return given_by_plan(get_current_context()["ti"].xcom_pull(task_ids="plan"))


_SCHEME: Final = "icefloe://"
_BATCH: Final = ("checkpoint_uri", "backfill_id", "batch_number", "after_snapshot_id", "up_to_snapshot_id")
_CLOCKS_DIFFER: Final = timedelta(hours=1)
_MOST_EVENTS: Final = 1_000


def changes_asset(name: str) -> Asset:
    """The asset ``Asset("icefloe://<name>")``, with an event for each committed batch with changes."""
    return Asset(f"{_SCHEME}{name}")


def changes_alias(name: str) -> AssetAlias:
    """The outlet of commit: an alias, because an asset would start consumers after empty batches too.

    It is an inlet of commit too, to look for its own events; an alias as inlet starts nothing.
    """
    return AssetAlias(f"{_SCHEME}{name}")


def has_event(name: str, batch: CommittedBatch, committed_before_at: str | None) -> bool:
    """True if a batch that commit found committed has its event; commit was cleared, or another run was faster.

    Airflow keeps the event only if the task succeeds. A try killed right after the commit left none, and the next try
    owes it. If in doubt, consumers start twice rather than never.

    Args:
        committed_before_at: time of the found commit, ISO 8601; None: this try committed the batch.
    """
    if committed_before_at is None:
        return False
    since = datetime.fromisoformat(committed_before_at) - _CLOCKS_DIFFER
    wanted = {key: batch.get(key) for key in _BATCH}
    try:
        events = get_current_context()["inlet_events"][changes_alias(name)].after(since.isoformat()).limit(_MOST_EVENTS)
        return any(wanted == {key: event.extra.get(key) for key in _BATCH} for event in events)
    except Exception as error:  # noqa: BLE001 - whatever Airflow answers: the batch is committed
        logger.warning("Airflow does not say if %s has this batch already: %s", _SCHEME + name, one_line(error))
        return False


def scheduling_asset(name: str) -> Asset | AssetNameRef:
    """The asset of ``schedule: {asset: NAME}``: another pipeline's, or one declared elsewhere."""
    return Asset(name) if name.startswith(_SCHEME) else Asset.ref(name=name)
