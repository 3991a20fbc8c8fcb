"""A task of a phase, as its DAG has it, without a batch behind it."""

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from support.pipelines.pipeline_files import pipeline_from

__all__ = ["PREPARED", "SECRET", "FakeSparkSubmit", "context_of", "operator"]

SECRET = "hunter2hunter2"
PREPARED = {"route": "insert_only", "batch_number": 7, "backfill_id": None}


def context_of(folder: Path) -> Any:
    """The context of a task behind plan."""
    prepared = {**PREPARED, "plan_uri": f"file://{folder}/shuffle/flights/7/plan.json"}
    return {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": prepared}[task_ids])}


def operator(folder: Path, **keys: Any) -> SparkPhaseOperator:
    """The task of insert_only, for a pipeline file with these keys in a folder."""
    return SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=pipeline_from(folder, **keys))


class FakeSparkSubmit:
    """A shell script in the place of spark-submit, and Airflow's connections to Spark and to a store."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, script: str = ":") -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "login": "key", "password": SECRET}))
        self._folder = folder
        fake = folder / "bin" / "spark-submit"
        fake.parent.mkdir()
        fake.write_text(f'#!/bin/sh\nenv > {folder}/env; echo "$@" >> {folder}/arguments\n{script}\n')
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr("sys.executable", str(fake.parent / "python"))

    @property
    def calls(self) -> list[str]:
        """The arguments of each call."""
        found = self._folder / "arguments"
        return found.read_text().splitlines() if found.exists() else []

    @property
    def environment(self) -> str:
        """The environment of the last call."""
        return (self._folder / "env").read_text()
