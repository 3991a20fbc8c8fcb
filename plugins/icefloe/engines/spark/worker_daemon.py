"""Spark's Python daemon with the modules of a task imported, so that the workers that it forks need not import them.

Spark starts it by its name, as ``spark.python.daemon.module`` says.
"""

from contextlib import suppress
from importlib import import_module
from typing import Final

MODULE: Final = "icefloe.engines.spark.worker_daemon"
_OF_TASKS: Final = ("icefloe.batch.run.task_run", "pandas")
"""PyArrow imports pandas, if it is installed, as soon as a task makes an array of values."""


def serve_workers() -> None:
    """Serves Spark's requests for workers until Spark ends it."""
    from pyspark.daemon import manager

    for name in _OF_TASKS:
        with suppress(ImportError):  # another Python, without our libraries: the probe of `worker_libraries` names them
            import_module(name)
    manager()


if __name__ == "__main__":
    serve_workers()
