"""The tasks of a batch in a DAG of somebody's own."""

from pathlib import Path

from airflow.sdk import TaskGroup

from icefloe.orchestration.dags.batch_tasks import TASK_PAGES, add_batch_tasks, batch_default_args
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
from icefloe.orchestration.tasks.task_documents import pipeline_facts_document
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline

__all__ = ["batch_task_group"]


def batch_task_group(path: str | Path, *, group_id: str | None = None, waits: bool = False) -> TaskGroup:
    """Adds the next batch of a pipeline to the current DAG, and the tag ``icefloe``, by which the page finds it.

    The group succeeds without a batch too, if nothing new was committed. Its last task, ``cleanup``, returns the number
    of changes, two for an update; ``commit`` returns the batch, if there is one.

    Args:
        path: the pipeline file, relative to the folder of the DAG file. Its ``schedule`` does not count.
        group_id: by default the name of the file.
        waits: True: the group begins when there is work, or after a day.

    Raises:
        IcefloeError: the pipeline file cannot be read, or has a mistake.
    """
    group = TaskGroup(group_id or Path(path).stem)
    pipeline = Pipeline.load(Path(group.dag.folder, path))
    check_pipeline(pipeline)
    group.default_args = batch_default_args(pipeline, {**group.dag.default_args, **group.default_args})
    group.dag.tags.add("icefloe")
    with group:
        # A DAG of somebody else has a configuration of its own, so that a run of it cannot ask for a range.
        plan = add_batch_tasks(
            pipeline,
            lambda _: None,
            asset_name=pipeline.name,
            then=pipeline.last_tasks(),
            last_rule="none_failed",
        )
        plan.doc_json = pipeline_facts_document(pipeline)
        if waits:
            sensor = TableSnapshotSensor(
                task_id="wait_for_snapshot", doc_md=TASK_PAGES["wait_for_snapshot"], pipeline=pipeline, waits=True
            )
            sensor >> plan
    return group
