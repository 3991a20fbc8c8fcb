"""Mutations of the page: each shows a state to an operator that is not the pipeline's."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["PAGE_STATES"]

_HEALTH: Final = ("tests/orchestration/page/views/test_health.py",)
_HISTORY: Final = ("tests/orchestration/page/server/test_snapshot_history.py",)

PAGE_STATES: Final = (
    Mutation(
        name="a task that was never queued waits for nothing",
        path="orchestration/page/views/dag_state.py",
        before='{"scheduled": self.scheduled_at, "queued": self.queued_at}',
        after='{"queued": self.queued_at}',
        suite=_HEALTH,
    ),
    Mutation(
        name="a sensor that cannot look counts as up to date",
        path="orchestration/page/views/health.py",
        before='trouble.get("phase") != sensor.task_id',
        after="True",
        suite=_HEALTH,
    ),
    Mutation(
        name="a paused DAG tries a task again",
        path="orchestration/page/views/health.py",
        before="if retrying is not None and not _is_held(dag, run):",
        after="if retrying is not None:",
        suite=_HEALTH,
    ),
    Mutation(
        name="a task that is resumed waits since its last round",
        path="orchestration/page/views/dag_state.py",
        before='{"scheduled": self.scheduled_at, ',
        after='{"scheduled": self.queued_at or self.scheduled_at, ',
        suite=_HEALTH,
    ),
    Mutation(
        name="the time at which Airflow scheduled a task is not read",
        path="orchestration/page/server/dag_reader.py",
        before="        scheduled_at=row.scheduled_dttm,\n",
        after="",
        suite=("tests/dags/test_page.py",),
    ),
    Mutation(
        name="snapshots that are not listed count as expired",
        path="orchestration/page/server/snapshot_history.py",
        before="lineage[-1].parent_snapshot_id is None",
        after="listed[-1]['parent_snapshot_id'] is None",
        suite=_HISTORY,
    ),
    Mutation(
        name="a list of snapshots that is cut does not say so",
        path="orchestration/page/server/snapshot_history.py",
        before="len(lineage) - len(listed)",
        after="0",
        suite=_HISTORY,
    ),
)
