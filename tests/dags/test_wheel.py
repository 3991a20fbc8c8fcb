"""The package as `pip install` brings it, without a folder of the repository."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.catalogs import sql_properties
from support.pages.blocks import ROOT
from support.pipelines.lake import Lake
from support.tiers import extended

THREE_LINES = (ROOT / "dags" / "icefloe_pipelines.py").read_text()
SEEN_BY_AIRFLOW = """
import json, pathlib, sys, icefloe
from airflow import plugins_manager
from airflow.sdk import plugins_manager as of_tasks
from airflow.dag_processing.dagbag import DagBag
from icefloe.orchestration.page import app

plugins = [each for each in plugins_manager._get_plugins()[0] if each.name == "icefloe"]
for_tasks = [each for each in of_tasks._get_plugins()[0] if each.name == "icefloe"]
print(json.dumps({
    "library": icefloe.__file__,
    "sources": [type(each.source).__name__ for each in plugins],
    "for tasks": len(for_tasks),
    "problems": [*plugins_manager.get_import_errors(), *DagBag(sys.argv[1], bundle_name="dags-folder").import_errors],
    "applications": len([each for each in plugins_manager.get_fastapi_plugins()[0] if each["name"] == "icefloe"]),
    "dags": sorted(DagBag(sys.argv[1], bundle_name="dags-folder").dags),
    "page": (pathlib.Path(app.__file__).parent / "static" / "index.html").is_file(),
}))
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """An environment with the wheel, which sees the other packages of this one."""

    python: Path
    lake: Lake

    def run(self, *command: str | Path, **variables: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHONPATH"))}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(each) for each in command],
            cwd=self.lake.folder,
            env={**kept, "PATH": path, **self._variables(), **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def _variables(self) -> Mapping[str, str]:
        properties = {
            f"PYICEBERG_CATALOG__LAKEHOUSE__{key.upper()}": str(value)
            for key, value in sql_properties(self.lake.folder).items()
        }
        return {
            "AIRFLOW_HOME": str(self.lake.folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            **properties,
        }


@pytest.fixture
def installed(tmp_path: Path) -> Installation:
    uv = [sys.executable, "-m", "uv", "--offline", "--no-cache", "--quiet"]
    subprocess.run([*uv, "build", "--wheel", "--out-dir", tmp_path / "wheel", ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    [wheel] = (tmp_path / "wheel").glob("*.whl")
    subprocess.run([*uv, "pip", "install", "--no-deps", "--compile-bytecode", "--python", python, wheel], check=True)
    [packages] = (tmp_path / "venv").glob("lib/*/site-packages")
    # All but this repository, whose entry point for Airflow would be a second one.
    for other in Path(sysconfig.get_path("purelib")).iterdir():
        if not other.name.startswith("icefloe") and not (packages / other.name).exists():
            (packages / other.name).symlink_to(other)
    pipelines = tmp_path / "dags" / "pipelines"
    pipelines.mkdir(parents=True)
    (pipelines.parent / "icefloe_pipelines.py").write_text(THREE_LINES)
    return Installation(python, Lake.create(tmp_path, pipelines))


@pytest.mark.slow
@pytest.mark.parametrize(("plugins", "source"), [("nothing", "EntryPointSource"), ("copied", "PluginsDirectorySource")])
def test_airflow_finds_the_dags_and_the_page_once_with_or_without_a_copied_folder(
    installed: Installation, plugins: str, source: str
) -> None:
    installed.lake.write_pipeline("flights")
    folder = str(ROOT / "plugins") if plugins == "copied" else str(installed.lake.folder / plugins)
    printed = installed.run(
        installed.python, "-c", SEEN_BY_AIRFLOW, installed.lake.folder / "dags", AIRFLOW__CORE__PLUGINS_FOLDER=folder
    )
    seen: dict[str, Any] = json.loads(printed.splitlines()[-1])
    assert Path(seen.pop("library")).is_relative_to(installed.lake.folder / "venv")
    assert seen == {
        "sources": [source],
        "for tasks": 1,
        "problems": [],
        "applications": 1,
        "dags": ["flights", "flights__backfill"],
        "page": True,
    }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("master", ["local[2]", extended("local-cluster[1,1,1024]")])
def test_the_command_runs_a_batch_on_spark_in_this_process_and_in_executors_of_their_own(
    installed: Installation, master: str
) -> None:
    conf = {"spark.master": master, "spark.ui.enabled": "false", "spark.driver.memory": "512m"}
    installed.lake.write_pipeline("flights", engine="spark", spark={"conf": conf})
    installed.lake.append((1, "AA"))
    installed.run(installed.python.parent / "icefloe", "run", "flights")
    assert installed.lake.changes(0) == {("INSERT", 1, "AA"): 1}
