"""The modules of a batch's tasks, imported once in a scheduler that forks its tasks.

Under LocalExecutor each task is a fork of the scheduler. What the scheduler has imported, a task need not import again,
which is half of the second that a task without Spark takes. Other executors start tasks elsewhere: there nothing is
imported before a task needs it, for tasks of other DAGs would wait for it too.
"""

import logging
import os
import sys
from importlib import import_module
from typing import Final

from icefloe.errors import one_line
from icefloe.memory_pool import pool_variable

logger = logging.getLogger(__name__)

_MODULES: Final = (
    "icefloe.orchestration.tasks.calls",
    "icefloe.batch.map.write_map_output",
    "icefloe.batch.map.write_part",
    "icefloe.batch.reduce.read_range",
    "icefloe.batch.phases",
    "icefloe.batch.phases",
)
"""Modules that import nearly all that a task does. Nothing is called: threads and connections do not pass a fork."""
_SCHEDULER: Final = "airflow.jobs.scheduler_job_runner"


def import_tasks() -> None:
    """Imports them in a scheduler whose executor forks tasks; in any other process nothing."""
    if _SCHEDULER not in sys.modules:
        return
    from airflow.executors.executor_loader import ExecutorLoader

    if any(name.module_path.endswith(".LocalExecutor") for name in ExecutorLoader.get_executor_names()):
        _import_all()


def _import_all() -> None:
    """Imports them; if one cannot be imported, each task does so again, and says what is wrong."""
    # Forks keep the memory pool that PyArrow takes as it is imported. Programs that other DAGs start take their own.
    pool = pool_variable(os.environ)
    before = {name: os.environ[name] for name in pool if name in os.environ}
    os.environ.update(pool)
    try:
        for module in _MODULES:
            import_module(module)
    except Exception as error:  # noqa: BLE001 - the scheduler starts without them, and listeners of other plugins too
        logger.warning("the modules of icefloe's tasks cannot be imported in the scheduler: %s", one_line(error))
    finally:
        for name in pool:
            os.environ.pop(name, None)
        os.environ.update(before)
