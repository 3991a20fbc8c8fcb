"""Airflow's API server alone, on a home that is there already: enough to look at past runs and the page."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from demo.servers.free_port import free_port

__all__ = ["ApiServer"]


class ApiServer:
    """Use it as a context manager; everybody is an admin, and only this machine is answered.

    Args:
        folder: the server's output goes to ``api-server.out`` in it.
        variables: the settings of the home.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._output = folder / "api-server.out"
        self._port = free_port()
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "_AIRFLOW", "PYTHON"))
        }
        self._environment = {
            **kept,
            **variables,
            # The pages of this checkout, whichever one is installed.
            "PYTHONPATH": str(Path(__file__).parents[2] / "plugins"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address, with a final slash."""
        return f"http://127.0.0.1:{self._port}/"

    def __enter__(self) -> Self:
        """Starts the server and waits until it answers."""
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "airflow", "api-server"],
                env=self._environment, cwd=self._output.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"the API server does not answer:\n{self._output.read_text()[-3000:]}")
            time.sleep(0.3)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the server."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}icefloe/", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
