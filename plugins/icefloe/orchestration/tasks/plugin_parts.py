"""The listener of Airflow's starting components, and the button of tasks."""

import logging
import os
import sys
import uuid
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from airflow.configuration import conf
from airflow.listeners import hookimpl
from airflow.sdk import BaseOperator, BaseOperatorLink

from icefloe.errors import TransientError, one_line
from icefloe.memory_pool import pool_variable

if TYPE_CHECKING:
    from airflow.models.taskinstancekey import TaskInstanceKey

    from icefloe.checkpoint.records import Writer


__all__ = ["BatchLink"]


@hookimpl
def on_starting(component: object) -> None:
    """Makes the owner, and imports the modules of tasks where tasks are forked."""
    # Airflow passes the ``Job`` of a starting component, before it knows its kind. A task passes something else.
    if type(component).__name__ == "Job":
        make_owner()
        import_tasks()


class BatchLink(BaseOperatorLink):
    """Shown with a task's details; the page shows the batch's work, or the task's failure."""

    name = "icefloe"

    # The signature is Airflow's.
    def get_link(self, operator: BaseOperator, *, ti_key: "TaskInstanceKey") -> str:  # noqa: ARG002
        """URL of the run's tab, below Airflow's own path."""
        root = urlsplit(conf.get("api", "base_url", fallback="/") or "/").path.rstrip("/")
        return f"{root}/dags/{quote(ti_key.dag_id)}/runs/{quote(ti_key.run_id, safe='')}/plugin/icefloe-run"


logger = logging.getLogger(__name__)

OWNER_VARIABLE: Final = "icefloe_owner"
"""The Airflow Variable that keeps the owner's UUID."""
_DESCRIPTION: Final = "the owner of icefloe's checkpoints: this Airflow"


def current_writer() -> "Writer":
    """The owner of this Airflow, and the current task's run, if any."""
    # A callback in the DAG processor has no task. If it cannot read the owner, it writes as nobody.
    from airflow.sdk import Variable, get_current_context

    from icefloe.checkpoint.records import Writer

    owner = Writer.owner_in(os.environ) or Variable.get(OWNER_VARIABLE, default=None)
    try:
        run = get_current_context()["dag_run"]
    except RuntimeError:
        return Writer(owner=owner)
    if owner is None:
        # A task never makes it. To a task, an API server that does not answer looks like a missing Variable, and every
        # checkpoint would refuse a new owner.
        raise TransientError(
            f"the Airflow Variable {OWNER_VARIABLE} cannot be read: Airflow's API server does not answer, or no "
            "scheduler with icefloe's plugin has started yet; try again, or set ICEFLOE_OWNER where tasks run"
        )
    return Writer(owner=owner, run=f"{run.dag_id} {run.run_id}")


def make_owner() -> None:
    """Makes the Variable when a component with Airflow's database starts."""
    # Two tasks at once would each set their own. In the database its key is unique.
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError

    try:
        with create_session() as session:
            if session.query(Variable).filter(Variable.key == OWNER_VARIABLE).first() is None:
                session.add(Variable(key=OWNER_VARIABLE, val=uuid.uuid4().hex, description=_DESCRIPTION))
    except IntegrityError:
        logger.info("another scheduler made the Variable %s", OWNER_VARIABLE)


_CALLS: Final = "icefloe.orchestration.tasks.calls"
"""It imports nearly all that a task does. Nothing is called: threads and connections do not pass a fork."""
_SCHEDULER: Final = "airflow.jobs.scheduler_job_runner"


def import_tasks() -> None:
    """Imports the modules of tasks in a scheduler whose executor forks tasks, and nowhere more.

    A task repeats a failed import and reports it.
    """
    if _SCHEDULER not in sys.modules:
        return
    from airflow.executors.executor_loader import ExecutorLoader

    if not any(name.module_path.endswith(".LocalExecutor") for name in ExecutorLoader.get_executor_names()):
        return
    # Forks keep the memory pool that PyArrow takes as it is imported. Programs that other DAGs start take their own.
    pool = pool_variable(os.environ)
    before = {name: os.environ.get(name) for name in pool}
    os.environ.update(pool)
    try:
        import_module(_CALLS)
    except Exception as error:  # noqa: BLE001 - the scheduler starts without them, and listeners of other plugins too
        logger.warning("the modules of icefloe's tasks cannot be imported in the scheduler: %s", one_line(error))
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
