"""Airflow's four daemons in a home of their own, on this machine only."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import psutil

from demo.servers.fetching import fetching
from demo.servers.free_port import free_port
from demo.servers.server_process import CACHE

__all__ = ["Daemons", "copy_airflow_database", "wait_until"]

_NAMES = ("api-server", "scheduler", "dag-processor", "triggerer")
_WARM_SCHEDULER = Path(__file__).with_name("warm_scheduler.py")
_WITHOUT_LOG_SERVER = {"scheduler": ["--skip-serve-logs"], "triggerer": ["--skip-serve-logs"]}


class Daemons:
    """Use it as a context manager; leaving it ends the four processes, and all that they started.

    Args:
        home: AIRFLOW_HOME; ``dags`` below it is the dags folder. The daemons' output goes here.
        plugins: the plugins folder.
        variables: more environment variables, for example connections.
        is_warm: whether the scheduler imports what tasks need before they fork from it: a third of all CPU less.
    """

    def __init__(self, home: Path, *, plugins: Path, variables: dict[str, str], is_warm: bool = False) -> None:
        self._home = home
        self._is_warm = is_warm
        self._port = free_port()
        self._environment = {**_without_airflow(os.environ), **self._settings(plugins), **variables}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._sessions: set[int] = set()

    def __enter__(self) -> Self:
        """Makes the database, starts the daemons and waits until all of them are healthy."""
        if self._environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith("sqlite:"):
            copy_airflow_database(self._home)
        else:
            self._airflow("db", "migrate")
        try:
            for name in _NAMES:
                self.start(name)
                if name == "api-server":
                    # A scheduler that is there before starts tasks, and gives those up that find no API for minutes.
                    wait_until(self._is_answered, what="the API server", seconds=180)
            wait_until(self._are_healthy, what="healthy daemons", seconds=180)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the daemons."""
        self.stop()

    def stop(self) -> None:
        """Ends each process that this object started, waits for it, and kills what it left."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for left in self.processes():
            left.kill()

    def kill(self, name: str, *, with_children: bool) -> None:
        """SIGKILL for a daemon, and for its workers and their tasks if they are to die with it."""
        process = self._processes.pop(name)
        dying = psutil.Process(process.pid).children(recursive=True) if with_children else []
        process.kill()
        process.wait()
        for child in dying:
            with suppress(psutil.NoSuchProcess):
                child.kill()

    def processes(self) -> Iterator[psutil.Process]:
        """The daemons that run and all that they started, also if its parent is dead."""
        for pid in psutil.pids():
            with suppress(ProcessLookupError, psutil.NoSuchProcess):
                if os.getsid(pid) in self._sessions and (found := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                    yield found

    def get(self, path: str) -> Any:
        """The JSON at a path of the REST API."""
        return self._request("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that the REST API answers."""
        return self._request("POST", path, json.dumps(body).encode())

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that the REST API answers."""
        return self._request("PATCH", path, json.dumps(body).encode())

    def write_database(self, statement: str, *values: str) -> None:
        """Changes Airflow's database, which is SQLite, for what no button and no waiting can bring about."""
        with closing(sqlite3.connect(self._home / "airflow.db", timeout=60)) as database, database:
            database.execute(statement, values)

    def output(self, name: str) -> str:
        """The output of a daemon."""
        return (self._home / f"{name}.out").read_text(errors="replace")

    def task_logs(self, dag_id: str) -> str:
        """All that each task of a DAG logged, and the end of what the scheduler printed."""
        logs = sorted((self._home / "logs").rglob(f"dag_id={dag_id}/**/*.log"))
        texts = [f"{path.parent.name}: {path.read_text(errors='replace')}" for path in logs]
        return "\n".join([*texts, f"scheduler: {self.output('scheduler')[-2000:]}"])

    def _request(self, method: str, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/api/v2/{path}", data=body, method=method,
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.add_note(f"the API server printed: {self.output('api-server')[-6000:]}")
            raise

    def start(self, name: str) -> None:
        """Starts a daemon, also one that was killed."""
        is_warm = self._is_warm and name == "scheduler"
        program = [sys.executable, "-P", str(_WARM_SCHEDULER)] if is_warm else [sys.executable, "-m", "airflow"]
        with (self._home / f"{name}.out").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [*program, name, *_WITHOUT_LOG_SERVER.get(name, [])],
                env=self._environment, cwd=self._home, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        self._sessions.add(self._processes[name].pid)

    def _are_healthy(self) -> bool:
        health = self._health()
        return bool(health) and all(part["status"] == "healthy" for part in health.values())

    def _is_answered(self) -> bool:
        return bool(self._health())

    def _health(self) -> dict[str, Any]:
        """The API server's report on all of them; empty while it does not answer."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{self.output(name)[-3000:]}")
        try:
            return self.get("monitor/health")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return {}

    def _airflow(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self._environment, cwd=self._home, check=True, capture_output=True,
        )  # fmt: skip

    def _settings(self, plugins: Path) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self._home),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._home / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self._port}/execution/",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            # Four daemons share a file that one of them writes at a time. SQLite's own 5 s end in errors where others
            # have the cores.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self._home}/airflow.db?timeout=60",
        }


def wait_until(condition: Callable[[], Any], *, what: str, seconds: float) -> Any:
    """The first true value of a condition."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.5)
    raise TimeoutError(f"waited {seconds} seconds for {what}")


def _without_airflow(environ: Any) -> dict[str, str]:
    return {key: value for key, value in environ.items() if not key.startswith(("AIRFLOW", "_AIRFLOW", "PYTHON"))}


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
            env={**_without_airflow(os.environ), "AIRFLOW_HOME": folder, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        # Whole or not there, also if this process is killed.
        Path(folder, "airflow.db").rename(target)
