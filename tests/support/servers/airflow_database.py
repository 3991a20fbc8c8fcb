"""Airflow's empty database on SQLite: migrated once for each version of Airflow, then copied."""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE

__all__ = ["copy_airflow_database"]


def copy_airflow_database(home: Path) -> None:
    """Gives an AIRFLOW_HOME a database, as `airflow db migrate` does within seconds."""
    migrated = CACHE / f"airflow-{version('apache-airflow-core')}.db"
    with fetching("airflow_database"):
        if not migrated.exists():
            _migrate(migrated)
    shutil.copyfile(migrated, home / "airflow.db")


def _migrate(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="airflow-", dir=CACHE) as folder:
        subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env={**_without_settings(), "AIRFLOW_HOME": folder, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        # Whole or not there, also if this process is killed.
        Path(folder, "airflow.db").rename(target)


def _without_settings() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "_AIRFLOW", "PYTHON"))}
