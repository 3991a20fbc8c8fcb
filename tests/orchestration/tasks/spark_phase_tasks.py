"""A task of a phase, as its DAG has it, without a batch behind it."""

import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from support.pipelines.pipeline_files import pipeline_from

__all__ = ["CONTEXT", "PLAN_URI", "PREPARED", "SECRET", "fake_spark_submit", "operator"]

SECRET = "hunter2hunter2"
PLAN_URI = "file:///var/icefloe/shuffle/flights/7/plan.json"
PREPARED = {"route": "insert_only", "plan_uri": PLAN_URI, "batch_number": 7, "backfill_id": None}
CONTEXT = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": PREPARED}[task_ids])}


def operator(folder: Path, **keys: Any) -> SparkPhaseOperator:
    """The task of insert_only, for a pipeline file with these keys in a folder."""
    made = SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=pipeline_from(folder, **keys))
    made.application_args = [PLAN_URI]
    return made


def fake_spark_submit(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a shell script in the place of spark-submit, next to the interpreter."""
    fake = folder / "bin" / "spark-submit"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("sys.executable", str(fake.parent / "python"))
