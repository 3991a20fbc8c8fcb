"""The flow of a batch: its tasks, their order, and which of them each route runs.

    wait_for_snapshot -> plan -> route -+-> insert_only -------------------------------+-> deliver -> commit -> cleanup
                                        +-> shuffle_write -> coalesce -> shuffle_read -+
                                        +-> nothing_to_do -----------------------------+

Only pipelines whose batches are staged and then delivered to another sink have ``deliver``.

The DAG, the command line, the records, the status and the page use it, so that none can name a task that another does
not know.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Final

__all__ = ["ROUTE_TASKS", "WORKING_TASKS", "FlowTask", "Phase", "Route", "batch_tasks", "phase_of", "route_edges"]


class Route(StrEnum):
    """Way of a batch through the flow."""

    INSERT_ONLY = "insert_only"
    SHUFFLE = "shuffle"
    NOTHING_TO_DO = "nothing_to_do"


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
    DELIVER = "deliver"
    COMMIT = "commit"
    CLEANUP = "cleanup"


class Phase(StrEnum):
    """Tasks of the DAG that run many tasks on an engine."""

    INSERT_ONLY = FlowTask.INSERT_ONLY.value
    SHUFFLE_WRITE = FlowTask.SHUFFLE_WRITE.value
    SHUFFLE_READ = FlowTask.SHUFFLE_READ.value
    DELIVER = FlowTask.DELIVER.value


ROUTE_TASKS: Final[Mapping[Route, tuple[FlowTask, ...]]] = MappingProxyType(
    {
        Route.INSERT_ONLY: (FlowTask.INSERT_ONLY,),
        Route.SHUFFLE: (FlowTask.SHUFFLE_WRITE, FlowTask.COALESCE, FlowTask.SHUFFLE_READ),
        Route.NOTHING_TO_DO: (FlowTask.NOTHING_TO_DO,),
    }
)
"""The tasks between ``route`` and the end that all routes share, one after another."""

WORKING_TASKS: Final = tuple(
    task for task in FlowTask if task not in (FlowTask.WAIT_FOR_SNAPSHOT, FlowTask.ROUTE, FlowTask.NOTHING_TO_DO)
)
"""The tasks that do something to a batch."""


def phase_of(task: FlowTask) -> Phase | None:
    """The phase that a task runs; None for a task that no engine runs.

    >>> phase_of(FlowTask.SHUFFLE_READ), phase_of(FlowTask.COALESCE)
    (<Phase.SHUFFLE_READ: 'shuffle_read'>, None)
    """
    return next((phase for phase in Phase if phase.value == task.value), None)


def batch_tasks(route: Route, *, delivers: bool) -> tuple[FlowTask, ...]:
    """The tasks between ``route`` and ``commit``, in order. With ``delivers``, staged batches are delivered."""
    return (*ROUTE_TASKS[route], FlowTask.DELIVER) if delivers else ROUTE_TASKS[route]


def route_edges(route: Route, *, delivers: bool = False) -> Iterator[tuple[FlowTask, FlowTask]]:
    """The tasks of a route in pairs, each with the next one, from ``route`` to ``commit``.

    >>> [(before.value, after.value) for before, after in route_edges(Route.INSERT_ONLY)]
    [('route', 'insert_only'), ('insert_only', 'commit')]
    """
    yield from pairwise((FlowTask.ROUTE, *batch_tasks(route, delivers=delivers), FlowTask.COMMIT))
