"""The tasks of one batch, the same in both DAGs of a pipeline."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import BaseOperator, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from icefloe.orchestration.assets import changes_alias, changes_asset
from icefloe.orchestration.failures import clear_failures
from icefloe.orchestration.spark_phase_operator import SparkPhaseOperator
from icefloe.pipeline.model import Pipeline

if TYPE_CHECKING:
    from icefloe.batch.range_request import RangeRequest

__all__ = ["RangeOfRun", "add_batch_tasks"]

RangeOfRun: TypeAlias = "Callable[[Mapping[str, Any]], RangeRequest | None]"
"""Reads a run's configuration; None: the next batch of the pipeline."""


def add_batch_tasks(pipeline: Pipeline, range_of_run: RangeOfRun, *, asset_name: str) -> BaseOperator:
    """Adds plan to cleanup to the current DAG and returns plan.

    Args:
        pipeline: whose batch.
        range_of_run: refuses a run's configuration or reads a range from it.
        asset_name: of the asset that tells consumers of a batch with changes.
    """
    plan = _plan(pipeline, range_of_run)
    route = _route(plan)
    insert_only = SparkPhaseOperator(task_id="insert_only", pipeline=pipeline, phase="insert_only")
    shuffle_write = SparkPhaseOperator(task_id="shuffle_write", pipeline=pipeline, phase="shuffle_write")
    coalesce = _coalesce(pipeline)
    shuffle_read = SparkPhaseOperator(task_id="shuffle_read", pipeline=pipeline, phase="shuffle_read")
    nothing_to_do = EmptyOperator(task_id="nothing_to_do")
    commit = _commit(pipeline, asset_name)
    cleanup = _cleanup(pipeline)

    route >> [insert_only, shuffle_write, nothing_to_do]
    shuffle_write >> coalesce >> shuffle_read
    [insert_only, shuffle_read, nothing_to_do] >> commit >> cleanup
    return plan.operator


def _plan(pipeline: Pipeline, range_of_run: RangeOfRun) -> Any:
    @task
    def plan() -> dict[str, Any]:
        from icefloe.orchestration.use_cases import plan_batch

        with clear_failures("plan"):
            return plan_batch(pipeline, range_of_run(get_current_context()["dag_run"].conf or {}))

    return plan()


def _route(plan: Any) -> Any:
    @task.branch
    def route(prepared: dict[str, Any]) -> str:
        return "shuffle_write" if prepared["route"] == "shuffle" else prepared["route"]

    return route(plan)


def _coalesce(pipeline: Pipeline) -> Any:
    @task
    def coalesce() -> dict[str, Any]:
        from icefloe.orchestration.use_cases import coalesce_batch

        with clear_failures("coalesce"):
            return coalesce_batch(pipeline, _prepared()["plan_uri"])

    return coalesce()


def _commit(pipeline: Pipeline, asset_name: str) -> Any:
    @task(  # type: ignore[untyped-decorator]
        trigger_rule="none_failed_min_one_success",
        outlets=[changes_alias(asset_name)],
    )
    def commit() -> dict[str, Any]:
        from icefloe.orchestration.use_cases import commit as commit_batch

        prepared = _prepared()
        plan_uri = prepared["plan_uri"]
        if plan_uri is None:
            why = "the range was delivered before" if prepared["was_delivered_before"] else "there is nothing new"
            raise AirflowSkipException(f"{pipeline.name} has no batch to commit: {why}")
        with clear_failures("commit"):
            report = commit_batch(pipeline, plan_uri)
        if any(report["counts"].values()):
            events = get_current_context()["outlet_events"][changes_alias(asset_name)]
            events.add(changes_asset(asset_name), extra=report)
        return report

    return commit()


def _cleanup(pipeline: Pipeline) -> Any:
    @task
    def cleanup() -> None:
        from icefloe.orchestration.use_cases import clean_up_batch

        with clear_failures("cleanup"):
            clean_up_batch(pipeline, _prepared()["plan_uri"])

    return cleanup()


def _prepared() -> dict[str, Any]:
    # Not as an argument: the edge from plan would count as the one success commit asks for.
    return get_current_context()["ti"].xcom_pull(task_ids="plan")
