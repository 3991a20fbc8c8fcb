"""The callback for a task that ended silently: its worker was lost, or no worker ever took it."""

import logging
from collections.abc import Mapping
from typing import Any, Self

from icefloe.pipeline.model import Pipeline

__all__ = ["LostTask"]

logger = logging.getLogger(__name__)


class LostTask:
    """A callback for failures and retries. It reports only if the task itself could not.

    Airflow calls it in the task's process after any failure, which `airflow_failures` has reported already. It also
    calls it in the DAG processor, when the task's heartbeat stayed away or the task was stuck in a queue. Nothing is
    called when a process is killed while its supervisor lives: the page reads that from Airflow's own states.

    Args:
        pipeline: its status records the loss.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Returns itself: Airflow copies the arguments of a DAG for each of its tasks, and this one never changes."""
        return self

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Counts the loss and puts it into the pipeline's status."""
        if context.get("exception") is not None:
            return
        from icefloe.batch.status.pipeline_status import Trouble
        from icefloe.orchestration.tasks.calls import record_trouble
        from icefloe.orchestration.telemetry.metrics import send_failure

        task_instance, dag_id = context["ti"], context["ti"].dag_id
        task_id, is_final = task_instance.task_id, task_instance.try_number > task_instance.max_tries
        sentence = (
            f"{task_id} ended without a word: it was killed, most often because memory ran out, its worker was lost, "
            "or none took it; see its log, and clear the task to go on where it stopped"
        )
        logger.error("%s", sentence)
        send_failure(dag_id, self._pipeline.table, task_id, is_final=is_final, is_lost=True)
        if dag_id == self._pipeline.name:
            record_trouble(self._pipeline, Trouble.now(sentence, phase=task_id, is_final=is_final), dag_id=dag_id)
