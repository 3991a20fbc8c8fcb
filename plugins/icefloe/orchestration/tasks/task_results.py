"""The results of tasks, which Airflow keeps as XComs for the tasks after them."""

from typing import TypedDict

from icefloe.errors import TerminalError

__all__ = ["CommittedBatch", "PlanResult", "given_by_plan"]


class PlanResult(TypedDict):
    """A batch that plan opened; snapshot ids are text, because browsers round large numbers."""

    route: str
    plan_uri: str
    batch_number: int
    backfill_id: str | None
    after_snapshot_id: str | None
    up_to_snapshot_id: str | None
    steps: int
    map_tasks: int
    num_partitions: int
    checkpoint_uri: str
    sink_path: object


class NothingToDo(TypedDict):
    """No batch."""

    route: str
    plan_uri: None
    was_delivered_before: bool
    checkpoint_uri: str


class CommittedBatch(TypedDict):
    """A batch that is committed, and the extra of its asset event.

    Attributes:
        sink: type of the sink: ``files``, or the sink that batches are delivered to.
        sink_path: the folder of the batch's files: the files sink, or the place where the batch is staged.
        delivery: what the sink took, as in the report; None if the files are the sink.
    """

    batch_number: int
    backfill_id: str | None
    route: str
    after_snapshot_id: str | None
    up_to_snapshot_id: str | None
    steps: int
    counts: dict[str, int]
    checkpoint_uri: str
    sink: str
    sink_path: object
    delivery: dict[str, object] | None


def given_by_plan(found: PlanResult | None) -> PlanResult:
    """The result of plan, as a later task pulled it.

    Raises:
        TerminalError: there is none. Airflow gives None for a task that was marked as success, and for a lost XCom.
    """
    if found is None:
        raise TerminalError("plan returned no batch: it was marked as success or its XCom was deleted; clear plan")
    return found
