"""The DAGs of a folder. A broken file is one red DAG; the others stay."""

import logging
import re
from collections.abc import Container, Mapping
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, Param, task, timezone

from icefloe.errors import IcefloeError, TerminalError, UsageError, one_line
from icefloe.orchestration.dags.batch_tasks import (
    TASK_PAGES,
    add_batch_tasks,
    backfill_page,
    batch_default_args,
    broken_page,
    pipeline_page,
    scheduling_asset,
)
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
from icefloe.orchestration.tasks.task_documents import broken_document, pipeline_facts_document
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline, pipeline_paths

if TYPE_CHECKING:
    from icefloe.batch.open.next_range import RequestedRange


__all__ = ["make_dags"]

logger = logging.getLogger(__name__)

BROKEN = "broken"


def broken_dag(dag_id: str, path: Path, sentence: str) -> DAG:
    """A DAG whose page and only task show the fault of the file."""
    with DAG(
        dag_id,
        schedule=None,
        catchup=False,
        tags=["icefloe", BROKEN],
        description=f"{path.name} makes no DAG until it is corrected",
        doc_md=broken_page(path, sentence),
    ) as dag:

        @task(retries=0, doc_md=broken_page(path, sentence), doc_json=broken_document(path, sentence))
        def broken_pipeline_file() -> None:
            with airflow_failures("broken_pipeline_file"):
                raise TerminalError(sentence)

        broken_pipeline_file()
    return dag


_NOT_IN_A_DAG_ID = re.compile(r"[^\w.-]", re.ASCII)


def make_dags(folder: Path) -> dict[str, DAG]:
    """Two DAGs for each pipeline file of a folder, by DAG id; for a broken file one DAG that shows the fault.

    Files that make one DAG are all broken: Airflow knows a DAG by its id, so any of them would go on with its runs.
    Parsing the same files again makes no new version of a DAG. ``${ENV}`` stays unexpanded: the DAG processor may lack
    a variable.
    """
    whole: dict[Path, dict[str, DAG]] = {}
    broken: list[tuple[Path, str]] = []
    for path in pipeline_paths(folder):
        try:
            pipeline = Pipeline.load(path)
            check_pipeline(pipeline)
            whole[path] = {dag.dag_id: dag for dag in (pipeline_dag(pipeline, path), backfill_dag(pipeline, path))}
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one file must not take the others along
            logger.debug("%s makes no DAG: %s", path, error)
            broken.append((path, error.sentence if isinstance(error, IcefloeError) else f"{path}: {one_line(error)}"))
    dags: dict[str, DAG] = {}
    for path, made in whole.items():
        others = [str(other) for other, theirs in whole.items() if other != path and made.keys() & theirs.keys()]
        if others:  # a copy must not take over
            broken.append((path, _taken(path, next(iter(made)), " and ".join(others))))
        else:
            dags |= made
    # After the whole files, so that a broken one takes no id from them, nor the one that several files want.
    taken = set().union(*whole.values())
    for path, sentence in broken:
        dag = broken_dag(_free_id(path, taken), path, sentence)
        dags[dag.dag_id] = dag
        taken.add(dag.dag_id)
    return dags


def _free_id(path: Path, taken: Container[str]) -> str:
    wanted = _NOT_IN_A_DAG_ID.sub("_", path.stem)
    marked = f"{wanted}__file"
    numbered = (f"{marked}{number}" for number in count(2))
    return next(each for each in chain((wanted, marked), numbered) if each not in taken)


def _taken(path: Path, dag_id: str, others: str) -> str:
    return (
        f"{path}: the name {dag_id!r} is taken by another pipeline file of this folder, {others}: none of them makes a "
        "DAG; leave the name to the file that has batches already, and give the others their own"
    )


_SNAPSHOT_IDS: Final = {
    "after_snapshot_id": "Begin after this snapshot (exclusive). Empty: at the start of the history. At least one of "
    "the four fields is needed.",
    "up_to_snapshot_id": "End with this snapshot (inclusive). Empty: with the head of the branch.",
}
_TIMESTAMPS: Final = {
    "after_timestamp": "Instead of after_snapshot_id: begin after the snapshot current at this time.",
    "up_to_timestamp": "Instead of up_to_snapshot_id: end with the snapshot current at this time.",
}
_KEYS: Final = (*_SNAPSHOT_IDS, *_TIMESTAMPS)
_DIGITS: Final = r"^[0-9]{1,19}$"
_WITH_OFFSET: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$"


def backfill_params() -> dict[str, Param]:
    """The fields of the form, all optional; `backfill_range` checks them together."""
    # Snapshot ids are strings, because the form and the API round integers above 2^53.
    params = {key: _optional(description, pattern=_DIGITS) for key, description in _SNAPSHOT_IDS.items()}
    for key, description in _TIMESTAMPS.items():
        params[key] = _optional(description, format="date-time", pattern=_WITH_OFFSET)
    return params


def backfill_range(conf: Mapping[str, Any]) -> "RequestedRange":
    """The range in a run's configuration; empty values count as missing."""
    from icefloe.batch.open.next_range import RequestedRange

    given = given_keys(conf, known=_KEYS, instead=f"a backfill takes {', '.join(_KEYS)}")
    if not given:
        raise UsageError(f"a backfill needs a range: give at least one of {', '.join(_KEYS)}")
    try:
        # Airflow has compared each with the pattern of its field, which lets the 31st of February through.
        bounds: dict[str, Any] = {
            key: int(value) if key in _SNAPSHOT_IDS else datetime.fromisoformat(value) for key, value in given.items()
        }
    except (TypeError, ValueError) as cause:
        raise UsageError(f"the range of this backfill cannot be read: {one_line(cause)}") from cause
    return RequestedRange(**bounds)


def given_keys(conf: Mapping[str, Any], *, known: tuple[str, ...] = (), instead: str) -> dict[str, Any]:
    """The keys of a run that have a value; Airflow accepts unknown ones silently."""
    unknown = sorted(set(conf) - set(known))
    if unknown:
        raise UsageError(f"the run's configuration has the unknown key {unknown[0]!r}: {instead}")
    return {key: value for key, value in conf.items() if value not in (None, "")}


def _optional(description: str, **schema: str) -> Param:
    return Param(None, description=description, type=["null", "string"], **schema)


_BY_HAND: Final = ("manual", "operator_triggered")
_NOT_BY_DATE: Final = (*_BY_HAND, "scheduled", "asset_triggered", "asset_materialization")
_MAX_FAILED_RUNS: Final = 3
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
            given_keys(conf, instead=f"{pipeline.name} takes none, start {pipeline.name}__backfill for a range")

        wait_for_snapshot = TableSnapshotSensor(
            task_id="wait_for_snapshot",
            doc_md=TASK_PAGES["wait_for_snapshot"],
            pipeline=pipeline,
            waits=pipeline.schedule == _CONTINUOUS,
            check_configuration=next_batch,
        )
        plan = add_batch_tasks(pipeline, next_batch, asset_name=dag.dag_id, then=pipeline.last_tasks())
        plan.doc_json = pipeline_facts_document(pipeline)
        wait_for_snapshot >> plan
    return dag


def backfill_dag(pipeline: Pipeline, path: Path) -> DAG:
    """The DAG that delivers a range, started by hand."""
    # It is never paused at first or after failures: only people start it, and a run under a pause waits silently.
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
        plan = add_batch_tasks(
            pipeline, backfill_range, asset_name=dag.dag_id, then=pipeline.last_tasks(is_backfill=True)
        )
        plan.doc_json = pipeline_facts_document(pipeline)
    # Last, because each task makes deep copies of the params that are there: half the time of parsing many files.
    dag.params = backfill_params()
    return dag


def _dag(pipeline: Pipeline, dag_id: str, *, schedule: object, **settings: object) -> DAG:
    return DAG(
        dag_id,
        schedule=schedule,
        # In Airflow's core.default_timezone, in which a cron expression counts then, as in any other DAG.
        start_date=timezone.datetime(2024, 1, 1),
        catchup=False,
        # A checkpoint has one open batch at most. Another run could only wait for it, or lose a race.
        max_active_runs=1,
        default_args=batch_default_args(pipeline, {}),
        **settings,
    )


def _schedule(pipeline: Pipeline) -> object:
    schedule = pipeline.schedule
    return schedule if schedule is None or isinstance(schedule, str) else [scheduling_asset(schedule.asset)]
