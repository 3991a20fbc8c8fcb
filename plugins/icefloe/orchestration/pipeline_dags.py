"""The two DAGs of a pipeline."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG

from icefloe.orchestration.assets import scheduling_asset
from icefloe.orchestration.backfill_params import backfill_params, backfill_range, refuse_configuration
from icefloe.orchestration.batch_tasks import add_batch_tasks
from icefloe.orchestration.documentation import backfill_page, pipeline_page
from icefloe.orchestration.snapshot_sensor import TableSnapshotSensor
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import AssetSchedule

__all__ = ["backfill_dag", "pipeline_dag"]

_START: Final = datetime(2024, 1, 1, tzinfo=UTC)
_BY_HAND: Final = ("manual", "operator_triggered")
_NOT_BY_DATE: Final = (*_BY_HAND, "scheduled", "asset_triggered", "asset_materialization")
_MAX_FAILED_RUNS: Final = 3
_RETRIES: Final = 3
_CONTINUOUS: Final = "@continuous"


def pipeline_dag(pipeline: Pipeline, path: Path) -> DAG:
    """The DAG that follows the table."""
    with _dag(pipeline, pipeline.name, _schedule(pipeline), _NOT_BY_DATE, doc_md=pipeline_page(pipeline, path)) as dag:
        wait_for_snapshot = TableSnapshotSensor(
            task_id="wait_for_snapshot", pipeline=pipeline, waits=pipeline.schedule == _CONTINUOUS
        )

        def next_batch(conf: Mapping[str, Any]) -> None:
            name = pipeline.name
            refuse_configuration(conf, instead=f"{name} takes none, start {name}__backfill for a range")

        plan = add_batch_tasks(pipeline, next_batch, asset_name=dag.dag_id)
        wait_for_snapshot >> plan
    return dag


def backfill_dag(pipeline: Pipeline, path: Path) -> DAG:
    """The DAG that delivers a range, started by hand."""
    page = backfill_page(pipeline, path)
    with _dag(pipeline, f"{pipeline.name}__backfill", None, _BY_HAND, doc_md=page, params=backfill_params()) as dag:
        add_batch_tasks(pipeline, backfill_range, asset_name=dag.dag_id)
    return dag


def _dag(pipeline: Pipeline, dag_id: str, schedule: Any, run_types: tuple[str, ...], **settings: Any) -> DAG:
    return DAG(
        dag_id,
        schedule=schedule,
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        max_consecutive_failed_dag_runs=_MAX_FAILED_RUNS,
        allowed_run_types=run_types,
        default_args={"retries": _RETRIES, **pipeline.default_args},
        tags=["icefloe"],
        **settings,
    )


def _schedule(pipeline: Pipeline) -> Any:
    schedule = pipeline.schedule
    return [scheduling_asset(schedule.asset)] if isinstance(schedule, AssetSchedule) else schedule
