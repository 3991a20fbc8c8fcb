"""The runs of one DAG under real daemons, by Airflow's REST API."""

import urllib.error
from dataclasses import dataclass
from typing import Any

from support.servers.daemons import Daemons, wait_until

__all__ = ["DagRuns"]

_SECONDS = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRuns:
    """The runs of a DAG, counted from 0, the oldest first.

    Attributes:
        daemons: that run them.
        dag_id: of the DAG.
    """

    daemons: Daemons
    dag_id: str

    def all(self) -> list[dict[str, Any]]:
        """Every run, as Airflow describes it."""
        # The runs of all DAGs: before a DAG is parsed, its own are not found.
        runs = self.daemons.get("dags/~/dagRuns?order_by=run_after")["dag_runs"]
        return [run for run in runs if run["dag_id"] == self.dag_id]

    def start(self, conf: dict[str, Any]) -> None:
        """Starts a run by hand."""
        self.daemons.post(f"dags/{self.dag_id}/dagRuns", {"logical_date": None, "conf": conf})

    def mark(self, run: dict[str, Any], task_id: str, state: str) -> None:
        """Marks a task as failed or as success, as the buttons of Airflow's page do."""
        path = f"dags/{self.dag_id}/dagRuns/{run['dag_run_id']}/taskInstances/{task_id}"
        self.daemons.patch(path, {"new_state": state})

    def clear(self, run: dict[str, Any]) -> None:
        """Lets all tasks of a run begin again."""
        path = f"dags/{self.dag_id}/dagRuns/{run['dag_run_id']}/clear"
        self.daemons.post(path, {"dry_run": False, "only_failed": False})

    def pause(self, *, is_paused: bool) -> None:
        """Pauses the DAG or lets it go on, as the switch of Airflow's page does."""
        self.daemons.patch(f"dags/{self.dag_id}", {"is_paused": is_paused})

    def let_a_day_pass(self, run: dict[str, Any]) -> None:
        """Makes a run a day older than it is, so that its timeout passes now and on no machine earlier."""
        self.daemons.write_database(
            "UPDATE dag_run SET start_date = strftime('%Y-%m-%d %H:%M:%f', start_date, '-1 day') WHERE run_id = ? "
            "AND dag_id = ?",
            run["dag_run_id"], self.dag_id,
        )  # fmt: skip

    def wait_until_parsed(self) -> None:
        """Waits until Airflow knows the DAG."""
        wait_until(self._is_parsed, what=f"the DAG {self.dag_id}", seconds=_SECONDS)

    def task(self, run: dict[str, Any], task_id: str) -> dict[str, Any]:
        """The task instance of a run."""
        return self.daemons.get(f"dags/{self.dag_id}/dagRuns/{run['dag_run_id']}/taskInstances/{task_id}")

    def wait_for_end(self, number: int, *, state: str = "success") -> dict[str, Any]:
        """The run, when it has ended in a state; fails if it ends in another one."""

        def ended() -> dict[str, Any] | None:
            found = self.all()
            run = found[number] if len(found) > number else None
            if run is None or run["state"] not in ("success", "failed"):
                return None
            if run["state"] != state:
                logs = self.daemons.task_logs(self.dag_id)
                raise AssertionError(f"{run['dag_run_id']} of {self.dag_id} ended as {run['state']}:\n{logs}")
            return run

        return wait_until(ended, what=f"run {number} of {self.dag_id}", seconds=_SECONDS)

    def wait_for_task(self, number: int, task_id: str, state: str) -> dict[str, Any]:
        """The run, when one of its tasks is in a state."""

        def is_there() -> dict[str, Any] | None:
            found = self.all()
            is_reached = len(found) > number and self.task(found[number], task_id)["state"] == state
            return found[number] if is_reached else None

        return wait_until(is_there, what=f"{task_id} of run {number} that is {state}", seconds=_SECONDS)

    def _is_parsed(self) -> bool:
        try:
            self.daemons.get(f"dags/{self.dag_id}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        return True
