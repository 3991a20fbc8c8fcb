"""The button on a task that leads to the page of its run."""

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.configuration import conf
from airflow.sdk import BaseOperator, BaseOperatorLink

if TYPE_CHECKING:
    from airflow.models.taskinstancekey import TaskInstanceKey

__all__ = ["BatchLink"]


class BatchLink(BaseOperatorLink):
    """Shown with the task's details; the page shows the work of the batch, or the failure of the task."""

    name = "icefloe"

    # The signature is Airflow's.
    def get_link(self, operator: BaseOperator, *, ti_key: "TaskInstanceKey") -> str:  # noqa: ARG002
        """URL of the run's tab, below the path that Airflow is served at."""
        root = urlsplit(conf.get("api", "base_url", fallback="/") or "/").path.rstrip("/")
        return f"{root}/dags/{quote(ti_key.dag_id)}/runs/{quote(ti_key.run_id, safe='')}/plugin/icefloe-run"
