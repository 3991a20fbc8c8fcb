import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from icefloe.engines.spark.executors import exclusion_settings
from icefloe.engines.spark.master import SparkMaster
from icefloe.engines.spark.spark_conf import machine_defaults

SCRIPT = Path(__file__).parent / "bad_executors.py"
CLUSTER = SparkMaster(url="spark://master:7077", is_local=False)
NOWHERE: Mapping[str, str] = {"SPARK_CONF_DIR": "/nowhere"}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The outcomes of tasks if one of two executors is bad, and if both are."""
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("bad"))]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=240)
    found: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return found


@pytest.mark.spark
def test_tasks_that_fail_on_one_bad_executor_are_run_by_another(outcomes: list[list[dict[str, Any]]]) -> None:
    found, _ = outcomes
    assert [each["error"] for each in found] == [None] * 8
    assert max(each["tries"] for each in found) == 2, "once on the bad executor, and never again"
    assert max(each["refused"] for each in found) == 1, "Spark keeps the executor away as soon as it refused one"


@pytest.mark.spark
def test_an_error_that_all_executors_have_keeps_its_class_and_names_the_host(
    outcomes: list[list[dict[str, Any]]],
) -> None:
    _, found = outcomes
    host = socket.gethostname()
    assert [each["error"] for each in found] == [
        ["DamagedPartsError", f"no space for task {number}; it ran on host {host}"] for number in range(8)
    ]


def test_executors_are_excluded_on_clusters_unless_somebody_chose_otherwise() -> None:
    def settings(configured: Mapping[str, str], url: str = CLUSTER.url) -> Mapping[str, str]:
        return exclusion_settings(configured, SparkMaster(url=url, is_local=False))

    ours = {"spark.excludeOnFailure.taskAndStage.enabled": "true", "spark.icefloe.excludesExecutors": "true"}
    assert settings({}) == settings({}, "yarn") == settings({"spark.task.maxFailures": "8"}) == ours
    assert settings({}, "local[2]") == {}
    assert settings({"spark.excludeOnFailure.enabled": "false"}) == {}
    # Spark ends at once if a task has no tries left for another machine.
    assert settings({"spark.task.maxFailures": "2"}) == {}


def test_the_machines_defaults_are_a_choice_too(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.task.maxFailures 1\n")
    assert exclusion_settings(machine_defaults({"SPARK_CONF_DIR": str(tmp_path)}), CLUSTER) == {}
