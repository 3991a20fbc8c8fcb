"""The two DAGs of a pipeline."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, timezone

from icefloe.orchestration.dags.assets import scheduling_asset
from icefloe.orchestration.dags.backfill_params import backfill_params, backfill_range, refuse_configuration
from icefloe.orchestration.dags.batch_tasks import add_batch_tasks
from icefloe.orchestration.dags.documentation import TASK_PAGES, backfill_page, pipeline_page
from icefloe.orchestration.tasks.lost_tasks import LostTask
from icefloe.orchestration.tasks.pipeline_facts import pipeline_facts_document
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
from icefloe.pipeline.model import Pipeline

_BY_HAND: Final = ("manual", "operator_triggered")
_NOT_BY_DATE: Final = (*_BY_HAND, "scheduled", "asset_triggered", "asset_materialization")
_MAX_FAILED_RUNS: Final = 3
_RETRIES: Final = 3
_CONTINUOUS: Final = "@continuous"
_TAG: Final = "icefloe"


def pipeline_dag(pipeline: Pipeline, path: Path) -> DAG:
    """The DAG that follows the table."""
    with _dag(
        pipeline,
        pipeline.name,
        schedule=_schedule(pipeline),
        # Airflow's own backfill makes a run for each date. A batch has no date: it begins where the last one ended.
        allowed_run_types=_NOT_BY_DATE,
        max_consecutive_failed_dag_runs=_MAX_FAILED_RUNS,
        description=f"Row-level changes of {pipeline.table}, batch by batch",
        doc_md=pipeline_page(pipeline, path),
        tags=[_TAG],
    ) as dag:

        def next_batch(conf: Mapping[str, object]) -> None:
            name = pipeline.name
            refuse_configuration(conf, instead=f"{name} takes none, start {name}__backfill for a range")

        wait_for_snapshot = TableSnapshotSensor(
            task_id="wait_for_snapshot",
            doc_md=TASK_PAGES["wait_for_snapshot"],
            pipeline=pipeline,
            waits=pipeline.schedule == _CONTINUOUS,
            check_configuration=next_batch,
        )
        plan = add_batch_tasks(pipeline, next_batch, asset_name=dag.dag_id, delivers=pipeline.delivers)
        plan.doc_json = pipeline_facts_document(pipeline)
        wait_for_snapshot >> plan
    return dag


def backfill_dag(pipeline: Pipeline, path: Path) -> DAG:
    """The DAG that delivers a range, started by hand.

    It is not paused when it is new, and not after failures: only people start it, and a run that is started while it
    is paused waits silently.
    """
    with _dag(
        pipeline,
        f"{pipeline.name}__backfill",
        schedule=None,
        allowed_run_types=_BY_HAND,
        is_paused_upon_creation=False,
        description=f"Row-level changes of a range of {pipeline.table}, started by hand",
        doc_md=backfill_page(pipeline, path),
        tags=[_TAG, "backfill"],
    ) as dag:
        # A backfill stays staged: `icefloe deliver` brings it where somebody wants it.
        plan = add_batch_tasks(pipeline, backfill_range, asset_name=dag.dag_id, delivers=False)
        plan.doc_json = pipeline_facts_document(pipeline)
    # Last, because each task makes deep copies of the params that are there: half the time of parsing many files.
    dag.params = backfill_params()
    return dag


def _dag(pipeline: Pipeline, dag_id: str, *, schedule: object, **settings: object) -> DAG:
    lost = LostTask(pipeline)
    return DAG(
        dag_id,
        schedule=schedule,
        # In Airflow's core.default_timezone, in which a cron expression counts then, as in any other DAG.
        start_date=timezone.datetime(2024, 1, 1),
        catchup=False,
        # A checkpoint has one open batch at most. Another run could only wait for it, or lose a race.
        max_active_runs=1,
        default_args={
            "retries": _RETRIES,
            "on_failure_callback": lost,
            "on_retry_callback": lost,
            **pipeline.default_args,
        },
        **settings,
    )


def _schedule(pipeline: Pipeline) -> object:
    schedule = pipeline.schedule
    return schedule if schedule is None or isinstance(schedule, str) else [scheduling_asset(schedule.asset)]
