"""The tasks of one batch."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Asset, AssetAlias, BaseOperator, XComArg, get_current_context, task
from airflow.sdk.definitions.asset import AssetNameRef
from airflow.sdk.exceptions import AirflowSkipException

from icefloe.errors import one_line
from icefloe.flow import FlowTask, Phase, Route
from icefloe.orchestration.tasks.failures import LostTask, airflow_failures
from icefloe.orchestration.tasks.plugin_parts import BatchLink
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from icefloe.orchestration.tasks.task_documents import CommittedBatch, PlanResult, beside, given_by_plan
from icefloe.pipeline.model import Pipeline

if TYPE_CHECKING:
    from icefloe.batch.open.next_range import RequestedRange

logger = logging.getLogger(__name__)

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")

TASK_PAGES: Final[Mapping[str, str]] = {
    "wait_for_snapshot": "Succeeds when a batch is open or the table has a new snapshot. Under `@continuous` it "
    "waits for one, *deferred*, for a day at most; under any other schedule it looks once.",
    "plan": "Resumes the open batch or opens the next one, and writes its plan. It returns the snapshots, the "
    "route and the number of map tasks.",
    "route": "`insert_only` if no row was removed, `shuffle_write` if one was, `nothing_to_do` if no data changed. "
    "The other routes are *skipped*.",
    "insert_only": "Reads the data files that were added and writes their rows to the sink. Nothing is shuffled.",
    "shuffle_write": "Reads the data files that were added and removed, cancels the rows that are in both, and "
    "writes the others by their identity. A retry redoes only map tasks without a valid record.",
    "coalesce": "Merges small neighbouring reduce partitions into ranges that are read together.",
    "shuffle_read": "Reads the output of shuffle_write, pairs updates and writes the changes to the sink. A retry "
    "redoes only the ranges that were not delivered.",
    "deliver": "Checks that no row was lost or made up, then delivers the staged batch to the sink, part by part. "
    "A retry delivers only the parts that are missing. A small batch needs no Spark application.",
    "check": "Runs the queries of `checks` on the proven changes, before anybody sees them. If it is red, its "
    "log names the check and what to do.",
    "nothing_to_do": "The table is as it was, or its commits changed no row.",
    "commit": "Checks that no row was lost or made up, then publishes the batch and moves the cursor. *Skipped* if "
    "there is no batch.",
    "cleanup": "Deletes the files that a committed batch passed between its tasks. It returns the number of changes.",
}
"""The page of each task, by task id."""


def pipeline_page(pipeline: Pipeline, path: Path) -> str:
    """The page of the DAG that follows the table."""
    return f"""Delivers the row-level changes of **{pipeline.table}** batch by batch, in the order of its commits.

A run resumes the batch that is open in the checkpoint, otherwise it takes the commits since the last batch. It takes no
configuration: `{pipeline.name}__backfill` delivers a range. If a task fails, the `ERROR` line above the traceback in
its log names the fault and the way out. Then clear the task, or let the next run resume the batch.

{_facts(pipeline, path)}
"""


def backfill_page(pipeline: Pipeline, path: Path) -> str:
    """The page of the DAG that delivers a range."""
    return f"""Delivers the row-level changes of a range of **{pipeline.table}** to a place of its own.

Start it by hand with a range: an `after_` bound (exclusive), an `up_to_` bound (inclusive) or both, as snapshot ids
or as timestamps with an offset. It moves no cursor and does not wait for `{pipeline.name}`. A range that was
delivered before is not delivered again: the `commit` of such a run is skipped.

{_facts(pipeline, path, below="/_backfills")}
"""


def broken_page(path: Path, sentence: str) -> str:
    """The page of a file that makes no DAG."""
    quoted = "\n".join(f"> {line}\n>" for line in _MARKDOWN.sub(r"\\\1", sentence).split("\n"))
    return (
        f"**{path.name}** makes no DAG until it is corrected:\n\n{quoted}\n\nCheck it with `icefloe validate {path}`.\n"
    )


def _facts(pipeline: Pipeline, path: Path, *, below: str = "") -> str:
    staged = "staged as files in" if pipeline.delivers else "files in"
    catalog = pipeline.catalog if isinstance(pipeline.catalog, str) else pipeline.catalog.get("name", "default")
    rows = {
        "Table": f"`{pipeline.table}`, branch `{pipeline.branch}`, catalog `{catalog}`",
        "Changes": f"`{pipeline.changes}`",
        "Sink": f"`{pipeline.sink.type}`, {staged} `{pipeline.changes_folder.path}{below}`",
        "Schedule": "by hand" if below else f"`{_schedule(pipeline)}`",
        "Engine": pipeline.engine,
        "Storage": f"`{pipeline.storage}`",
        "Pipeline file": f"`{path.name}`",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _schedule(pipeline: Pipeline) -> str:
    schedule = pipeline.schedule
    return schedule or "by hand" if schedule is None or isinstance(schedule, str) else f"asset {schedule.asset}"


# Airflow's page of XComs takes a string of digits for a number and rounds it; inside a mapping it stays a string.
_MULTIPLE_OUTPUTS: Final = False

_AFTER_ROUTES: Final = "none_failed_min_one_success"

_RETRIES: Final = 3
_CALLBACKS: Final = ("on_failure_callback", "on_retry_callback")


def batch_default_args(pipeline: Pipeline, around: Mapping[str, object]) -> dict[str, object]:
    """The ``default_args`` of a batch's tasks; the pipeline file's come before those of the DAG around the tasks."""
    callbacks = {name: [LostTask(pipeline), *_as_list(around.get(name))] for name in _CALLBACKS}
    return {"retries": _RETRIES, **around, **callbacks, **pipeline.default_args}


def _as_list(callbacks: object) -> list[object]:
    return list(callbacks) if isinstance(callbacks, list | tuple) else [] if callbacks is None else [callbacks]


RangeOfRun: TypeAlias = "Callable[[Mapping[str, object]], RequestedRange | None]"
"""Reads a run's configuration; None: the next batch of the pipeline."""


def add_batch_tasks(
    pipeline: Pipeline,
    range_of_run: RangeOfRun,
    *,
    asset_name: str,
    then: Sequence[FlowTask],
    last_rule: str = "all_success",
) -> BaseOperator:
    """Adds plan to cleanup to the current DAG or group, with ``then`` before commit, and returns plan.

    Args:
        last_rule: the trigger rule of cleanup.
    """
    plan = _plan(pipeline, range_of_run)
    edges = [edge for route in Route for edge in route.edges(then)]
    used = {task for edge in edges for task in edge}
    made = {
        FlowTask.ROUTE: _route(pipeline, plan),
        **{task: _phase(pipeline, phase) for task in FlowTask if (phase := task.phase) and task in used},
        FlowTask.COALESCE: _call(pipeline, FlowTask.COALESCE, "coalesce_batch"),
        FlowTask.NOTHING_TO_DO: EmptyOperator(task_id="nothing_to_do", doc_md=TASK_PAGES[FlowTask.NOTHING_TO_DO]),
        FlowTask.COMMIT: _commit(pipeline, asset_name),
        FlowTask.CLEANUP: _cleanup(pipeline, last_rule),
    }
    if FlowTask.CHECK in used:
        # Of the three ways to it, two are skipped.
        made[FlowTask.CHECK] = _call(pipeline, FlowTask.CHECK, "check_batch", trigger_rule=_AFTER_ROUTES)
        made[FlowTask.CHECK].operator.operator_extra_links = (BatchLink(),)
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
            return beside(plan.operator.task_id, Route(given_by_plan(plan_result)["route"]).tasks()[0].value)

    return route(plan)


def _call(pipeline: Pipeline, name: FlowTask, function: str, *, trigger_rule: str = "all_success") -> XComArg:
    """The task that calls a function of `calls`, which is imported when the task runs."""

    @task(task_id=name.value, multiple_outputs=_MULTIPLE_OUTPUTS, doc_md=TASK_PAGES[name], trigger_rule=trigger_rule)
    def call() -> object:
        with airflow_failures(name.value, pipeline):
            from icefloe.orchestration.tasks import calls

            return getattr(calls, function)(pipeline, _plan_result())

    return call()


def _commit(pipeline: Pipeline, asset_name: str) -> XComArg:
    @task(
        # Of the three ways to commit, two are skipped.
        trigger_rule=_AFTER_ROUTES,
        # As an outlet, the asset of partitions would get an event after every commit.
        inlets=[changes_alias(asset_name), partitions_asset(asset_name)],
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
            _add_partitions(partitions_asset(asset_name), batch)
        return batch

    return commit()


def _cleanup(pipeline: Pipeline, trigger_rule: str) -> XComArg:
    @task(doc_md=TASK_PAGES["cleanup"], trigger_rule=trigger_rule)
    def cleanup() -> int:
        with airflow_failures("cleanup", pipeline):
            from icefloe.orchestration.tasks.calls import clean_up_batch

            planned, committed = _result("plan"), _result("commit")
            if planned is None:
                raise AirflowSkipException("all tasks of the batch were skipped")
            if planned["plan_uri"]:
                clean_up_batch(pipeline, planned)
            return sum(committed["counts"].values()) if committed else 0

    return cleanup()


def _result(name: str) -> Any:
    # Not as an argument: the edge from plan would count as the one success commit asks for.
    task_instance = get_current_context()["ti"]
    return task_instance.xcom_pull(task_ids=beside(task_instance.task_id, name))


def _plan_result() -> PlanResult:
    return given_by_plan(_result("plan"))


_SCHEME: Final = "icefloe://"
_BATCH: Final = ("checkpoint_uri", "backfill_id", "batch_number", "after_snapshot_id", "up_to_snapshot_id")
_CLOCKS_DIFFER: Final = timedelta(hours=1)
_MOST_EVENTS: Final = 1_000
_LONGEST_KEY: Final = 250


def changes_asset(name: str) -> Asset:
    """The asset ``Asset("icefloe://<name>")``, with an event for each committed batch with changes."""
    return Asset(f"{_SCHEME}{name}")


def changes_alias(name: str) -> AssetAlias:
    """The outlet of commit: an alias, because an asset would start consumers after empty batches too.

    It is an inlet of commit too, to look for its own events; an alias as inlet starts nothing.
    """
    return AssetAlias(f"{_SCHEME}{name}")


def partitions_asset(name: str) -> Asset:
    """The asset ``Asset("icefloe://<name>/partitions")``, with an event for each changed partition of a batch.

    An asset of its own: Airflow starts nothing but DAGs with a `PartitionedAssetTimetable` after an event with a
    partition, and only other DAGs after one without.
    """
    return Asset(f"{_SCHEME}{name}/partitions")


def _add_partitions(asset: Asset, batch: CommittedBatch) -> None:
    """Adds an event for each changed partition, or one without if not all of them have a key."""
    context, keys = get_current_context(), batch["changed_partitions"] or []
    # Airflow keeps events of the outlets that the task has at its end.
    context["task"].outlets = [*context["task"].outlets, asset]
    events = context["outlet_events"][asset]
    events.extra = {name: value for name, value in batch.items() if name != "changed_partitions"}
    if all(len(key) <= _LONGEST_KEY for key in keys):
        events.add_partitions(keys)


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
