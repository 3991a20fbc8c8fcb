import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from orchestration.tasks.spark_phase_tasks import SECRET


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connections to Spark and to a store."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "login": "key", "password": SECRET}))


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The call of spark-submit: its command and environment."""
    calls: list[dict[str, Any]] = []

    def submit(self: SparkSubmitHook, application: str, *, env: dict[str, str]) -> None:
        command = self._build_spark_submit_command(application)
        # While the job runs: the folder of both is temporary.
        files = [Path(command[place + 1]) for place, each in enumerate(command) if each == "--py-files"]
        linked = Path(env.get("PYTHONPATH", "").partition(":")[0]) / "icefloe"
        zipped = [path.name for path in files if path.is_file()]
        calls.append({"command": command, "env": env, "zipped": zipped, "linked": linked.resolve()})

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    return calls
