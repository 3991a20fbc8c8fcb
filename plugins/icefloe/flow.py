"""The flow of a batch: its tasks, their order, and which of them each route runs.

    wait_for_snapshot -> plan -> route -+-> insert_only -------------------------------+-> deliver -> commit -> cleanup
                                        +-> shuffle_write -> coalesce -> shuffle_read -+
                                        +-> nothing_to_do -----------------------------+

Only pipelines whose batches are staged and then delivered to another sink have ``deliver``. Only those with ``checks``
have ``check``, before deliver and commit.

The DAG, the command line, the records, the status and the page use it, so that none can name a task that another does
not know.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Final

__all__ = ["WORKING_TASKS", "FlowTask", "Phase", "Route"]


class FlowTask(StrEnum):
    """A task of the DAG, in the order of the flow; the value is its ``task_id``."""

    WAIT_FOR_SNAPSHOT = "wait_for_snapshot"
    PLAN = "plan"
    ROUTE = "route"
    INSERT_ONLY = "insert_only"
    SHUFFLE_WRITE = "shuffle_write"
    COALESCE = "coalesce"
    SHUFFLE_READ = "shuffle_read"
    NOTHING_TO_DO = "nothing_to_do"
    CHECK = "check"
    DELIVER = "deliver"
    COMMIT = "commit"
    CLEANUP = "cleanup"

    @property
    def phase(self) -> "Phase | None":
        """The phase that a task runs; None for a task that no engine runs.

        >>> FlowTask.SHUFFLE_READ.phase, FlowTask.COALESCE.phase
        (<Phase.SHUFFLE_READ: 'shuffle_read'>, None)
        """
        return next((phase for phase in Phase if phase.value == self.value), None)


class Phase(StrEnum):
    """Tasks of the DAG that run many tasks on an engine."""

    INSERT_ONLY = FlowTask.INSERT_ONLY.value
    SHUFFLE_WRITE = FlowTask.SHUFFLE_WRITE.value
    SHUFFLE_READ = FlowTask.SHUFFLE_READ.value
    DELIVER = FlowTask.DELIVER.value


class Route(StrEnum):
    """Way of a batch through the flow."""

    INSERT_ONLY = "insert_only"
    SHUFFLE = "shuffle"
    NOTHING_TO_DO = "nothing_to_do"

    def tasks(self, then: Iterable[FlowTask] = ()) -> tuple[FlowTask, ...]:
        """The tasks between ``route`` and ``commit``, in order; all routes of a pipeline end with ``then``."""
        own = (FlowTask.SHUFFLE_WRITE, FlowTask.COALESCE, FlowTask.SHUFFLE_READ)
        return (*(own if self is Route.SHUFFLE else (FlowTask(self.value),)), *then)

    def edges(self, then: Iterable[FlowTask] = ()) -> Iterator[tuple[FlowTask, FlowTask]]:
        """The tasks of a route in pairs, each with the next one, from ``route`` to ``commit``.

        >>> [(before.value, after.value) for before, after in Route.INSERT_ONLY.edges()]
        [('route', 'insert_only'), ('insert_only', 'commit')]
        """
        yield from pairwise((FlowTask.ROUTE, *self.tasks(then), FlowTask.COMMIT))


WORKING_TASKS: Final = tuple(
    task for task in FlowTask if task not in (FlowTask.WAIT_FOR_SNAPSHOT, FlowTask.ROUTE, FlowTask.NOTHING_TO_DO)
)
"""The tasks that do something to a batch."""
