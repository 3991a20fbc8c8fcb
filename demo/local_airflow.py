"""Airflow in this process: a home of its own, a dags folder with icefloe in it, and runs of a DAG."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from demo.environment import ROOT, demo_environment
from demo.process_output import output_to

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

__all__ = ["DagRunError", "LocalAirflow"]

_MAX_CHARACTERS: Final = 400


class DagRunError(Exception):
    """A run of the DAG that did not succeed, or a DAG that is not there."""


class LocalAirflow:
    """Runs DAGs as `airflow dags test` does, without scheduler and webserver.

    Args:
        folder: of everything that Airflow writes; its log goes to ``airflow.log`` in it.
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / "airflow.log"
        self._folder = folder
        self._dags: dict[str, Any] = {}

    def start(self, pipeline: Path, connections: Mapping[str, str] = MappingProxyType({})) -> None:
        """Install icefloe's DAG file and one pipeline file, make Airflow's database, load the DAGs.

        Airflow must not have been imported before: it reads its environment then.

        Args:
            pipeline: the file.
            connections: Airflow connections that it names, in addition to the demo's, by the names of their variables.
        """
        environment = demo_environment(os.environ, self._folder, connections)
        os.environ.clear()
        os.environ.update(environment)
        dags = self._folder / "dags"
        (dags / "pipelines").mkdir(parents=True)
        shutil.copy(ROOT / "dags" / "icefloe_pipelines.py", dags)
        shutil.copy(pipeline, dags / "pipelines")
        with output_to(self.log):
            from airflow.dag_processing.dagbag import DagBag
            from airflow.utils.db import initdb

            initdb()
            bag = DagBag(dags, bundle_name="dags-folder")
        if bag.import_errors:
            raise DagRunError(f"Airflow cannot import {dags}: {bag.import_errors}")
        self._dags = bag.dags

    def run(
        self, dag_id: str, *, on_task: Callable[[str], None], conf: Mapping[str, str] = MappingProxyType({})
    ) -> "DagRun":
        """One run of a DAG, which succeeded.

        Args:
            dag_id: which.
            on_task: is called with the id of each task as it starts.
            conf: configuration of the run.

        Raises:
            DagRunError: there is no such DAG, or a task of it failed.
        """
        if dag_id not in self._dags:
            raise DagRunError(f"Airflow has no DAG {dag_id}, only {', '.join(sorted(self._dags)) or 'none'}")
        dag = self._dags[dag_id]
        failures: list[str] = []
        for task in dag.tasks:
            task.on_execute_callback = [lambda context: on_task(context["ti"].task_id)]
            task.on_failure_callback = [lambda context: failures.append(_failure(context))]
        with output_to(self.log):
            finished: DagRun = dag.test(run_conf=dict(conf) or None)
        if finished.state != "success":
            raise DagRunError(f"{dag_id} did not succeed: {'; '.join(failures) or finished.state}; see {self.log}")
        return finished


def _failure(context: Any) -> str:
    """The failed task and the reason in one line: the text of a failed spark-submit also holds the end of its log."""
    task_id = context["ti"].task_id
    first, *_ = str(context.get("exception")).splitlines() or [""]
    return first if first.startswith(f"{task_id}: ") else f"{task_id}: {first[:_MAX_CHARACTERS]}"
