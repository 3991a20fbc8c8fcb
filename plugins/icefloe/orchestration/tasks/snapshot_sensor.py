"""The sensor in front of a batch."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import TaskDeferred

from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.tasks.failures import airflow_failures, report_trouble
from icefloe.orchestration.tasks.plugin_parts import BatchLink
from icefloe.orchestration.tasks.task_documents import pipeline_to_mapping
from icefloe.pipeline.model import Pipeline

if TYPE_CHECKING:
    from icefloe.batch.open.next_batch import Work


__all__ = ["TableSnapshotSensor"]

logger = logging.getLogger(__name__)

SENSOR_TIMEOUT: Final = timedelta(days=1)
_SLACK: Final = timedelta(minutes=10)

# Airflow's executor reports the end of a worker that deferred. If the trigger fires first, and the task runs again
# before the scheduler reads that report, the scheduler takes the running task for one that was killed and fails it
# (apache/airflow 72716, open in 3.3). A scheduler reads reports every second or so, a busy one after some seconds.
_SETTLED: Final = timedelta(seconds=10)


class TableSnapshotSensor(BaseSensorOperator):
    """Succeeds when the pipeline has work: an open batch, or a snapshot its checkpoint has not seen.

    It pokes once in its worker and then defers. Nothing to do within ``timeout`` is no failure: the plan finds nothing.
    No outage shorter than ``timeout`` fails a run. The checkpoint decides what is read, never this sensor.

    Args:
        waits: False: poke once and succeed whatever was found.
        check_configuration: refuses a run's configuration at once, not after a day of waiting.
    """

    template_fields = ()
    operator_extra_links = (BatchLink(),)

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        waits: bool,
        timeout: timedelta = SENSOR_TIMEOUT,
        check_configuration: Callable[[Mapping[str, object]], object] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(poke_interval=pipeline.poll_interval, timeout=timeout, **kwargs)
        self.pipeline = pipeline
        self.waits = waits
        self.check_configuration = check_configuration

    def execute(self, context: Context) -> dict[str, object]:
        """Looks, then waits in the triggerer."""
        with airflow_failures("wait_for_snapshot", self.pipeline):
            if self.check_configuration is not None:
                self.check_configuration(context["dag_run"].conf or {})
            work = self._look()
        if work is None or (not work.is_due and self.waits):
            self._wait()
        if not work.is_due:
            logger.info("this schedule looks once: the run goes on and finds nothing to do")
        return self._result(snapshot_id=work.head_snapshot_id if work.is_due else None)

    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, object]:  # noqa: ARG002 - as above
        """Takes the trigger's event."""
        with airflow_failures("wait_for_snapshot", self.pipeline):
            if "error" in event:
                raise (TerminalError if event["is_terminal"] else TransientError)(event["error"])
        if event["is_due"]:
            logger.info("%s", self._place(event["snapshot_id"]))
        else:
            quiet = timedelta(seconds=self.timeout)
            logger.info("%s stayed quiet for %s: the run goes on and finds nothing to do", self.pipeline.table, quiet)
        return self._result(snapshot_id=event["snapshot_id"])

    def _look(self) -> "Work | None":
        from icefloe.orchestration.tasks.calls import look

        try:
            work = look(self.pipeline)
        except TransientError as error:
            if not self.waits:
                raise
            # Retries would be used up in minutes, and after three such runs Airflow pauses the DAG.
            logger.warning("this look failed, the trigger looks again: %s", error.sentence)
            report_trouble(self.pipeline, "wait_for_snapshot", error.sentence)
            return None
        found = "an open batch" if work.has_open_batch else "new snapshots" if work.has_new_snapshot else "no news"
        logger.info("%s has %s; %s", self.pipeline.name, found, self._place(work.head_snapshot_id))
        return work

    def _place(self, snapshot_id: int | None) -> str:
        return f"{self.pipeline.table} has {'no snapshot' if snapshot_id is None else f'snapshot {snapshot_id}'}"

    def _wait(self) -> NoReturn:
        from icefloe.orchestration.tasks.snapshot_trigger import PipelineSnapshotTrigger

        timeout = timedelta(seconds=self.timeout)
        now = datetime.now(UTC)
        deadline = now + timeout
        # This sensor has just looked: the next look is due after poll_interval.
        first_look = now + max(timedelta(seconds=self.pipeline.poll_interval), _SETTLED)
        logger.info(
            "waiting in the triggerer until %s, looking every %g seconds",
            deadline.isoformat(sep=" ", timespec="seconds"),
            self.pipeline.poll_interval,
        )
        raise TaskDeferred(
            trigger=PipelineSnapshotTrigger(
                pipeline=pipeline_to_mapping(self.pipeline),
                deadline=deadline.isoformat(),
                first_look=first_look.isoformat(),
            ),
            method_name=self.resume.__name__,
            timeout=timeout + _SLACK,
        )

    def _result(self, *, snapshot_id: int | None) -> dict[str, object]:
        return {"table": self.pipeline.table, "snapshot_id": None if snapshot_id is None else str(snapshot_id)}
