"""The listener of Airflow's components: a scheduler or triggerer that starts, before any task can run."""

from airflow.listeners import hookimpl

from icefloe.orchestration.tasks.owner import make_owner
from icefloe.orchestration.tasks.preloaded import import_tasks


@hookimpl
def on_starting(component: object) -> None:
    """Makes the owner, and imports the modules of tasks where tasks are forked.

    Airflow calls it with the ``Job`` of the component that starts, before the ``Job`` knows its own kind. A task calls
    it too, with something else: it has no database.
    """
    if type(component).__name__ == "Job":
        make_owner()
        import_tasks()
