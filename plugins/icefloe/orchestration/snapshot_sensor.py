"""The sensor in front of a batch."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from icefloe.errors import TransientError
from icefloe.orchestration.failures import clear_failures
from icefloe.orchestration.pipeline_mapping import pipeline_to_mapping
from icefloe.pipeline.model import Pipeline

__all__ = ["SENSOR_TIMEOUT", "TableSnapshotSensor"]

SENSOR_TIMEOUT: Final = timedelta(days=1)
_SLACK: Final = timedelta(minutes=10)


class TableSnapshotSensor(BaseSensorOperator):  # type: ignore[misc]
    """Succeeds when the pipeline has work: an open batch, or a snapshot its checkpoint has not seen.

    It pokes once where it runs and then defers. Nothing to do within ``timeout`` is no failure: the run goes on and
    its plan finds nothing. What to read is decided by the checkpoint, never by what this sensor returns.

    Args:
        pipeline: whose table is watched.
        waits: False: poke once and succeed whatever was found.
    """

    template_fields = ()

    def __init__(self, *, pipeline: Pipeline, waits: bool, timeout: timedelta = SENSOR_TIMEOUT, **kwargs: Any) -> None:
        super().__init__(poke_interval=pipeline.poll_interval, timeout=timeout, **kwargs)
        self.pipeline = pipeline
        self.waits = waits

    def poke(self, context: Context) -> bool:  # noqa: ARG002 - the signature is Airflow's
        """Whether there is work now."""
        from icefloe.orchestration.use_cases import work_of

        work = work_of(self.pipeline)
        self.log.info("%s of %s: %s", self.pipeline.table, self.pipeline.name, work)
        return work.is_due

    def execute(self, context: Context) -> dict[str, Any]:
        """Pokes, then waits in the triggerer."""
        with clear_failures("wait_for_snapshot"):
            is_due = self.poke(context)
        if self.waits and not is_due:
            self._wait()
        return self._result(snapshot_id=None)

    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Takes the trigger's event."""
        if "error" in event:
            raise (AirflowFailException if event["is_terminal"] else TransientError)(event["error"])
        if event["snapshot_id"] is None:
            self.log.info("%s stayed quiet for %s seconds", self.pipeline.table, self.timeout)
        return self._result(snapshot_id=event["snapshot_id"])

    def _wait(self) -> None:
        from icefloe.orchestration.snapshot_trigger import PipelineSnapshotTrigger

        timeout = timedelta(seconds=self.timeout)
        self.defer(
            trigger=PipelineSnapshotTrigger(
                pipeline=pipeline_to_mapping(self.pipeline), deadline=(datetime.now(UTC) + timeout).isoformat()
            ),
            method_name=self.resume.__name__,
            timeout=timeout + _SLACK,
        )

    def _result(self, *, snapshot_id: int | None) -> dict[str, Any]:
        return {"table": self.pipeline.table, "snapshot_id": None if snapshot_id is None else str(snapshot_id)}
