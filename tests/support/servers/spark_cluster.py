"""A standalone Spark cluster: a master and workers, each a JVM of its own on 127.0.0.1."""

import json
import os
import secrets
import signal
import urllib.request
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pyspark

from demo.servers.free_port import free_port
from demo.servers.jars import java_program
from demo.servers.server_process import ServerProcess, answers

__all__ = ["QUICK_START", "SparkCluster", "SparkWorker"]

SPARK_HOME: Final = Path(pyspark.__file__).parent
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
QUICK_START: Final = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
"""Options of a JVM that lives for seconds; `make test` adds the archive of Spark's classes."""
_HOST: Final = "127.0.0.1"
_START_SECONDS: Final = 90
_WORKERS: Final = 2
DEFAULTS: Final = """
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.network.crypto.authEngineVersion 2
spark.network.crypto.cipher AES/GCM/NoPadding
spark.network.crypto.saslFallback false
spark.io.encryption.enabled true
spark.master.rest.enabled false
"""


@dataclass(kw_only=True)
class SparkWorker:
    """One worker; its executors are children of its process.

    Attributes:
        host: Spark runs no second attempt of a task on the host of the first, so each worker has its own.
    """

    name: str
    process: ServerProcess
    host: str
    port: int = field(default_factory=free_port)

    def executors(self) -> list[int]:
        """The pids of the executors that it runs now."""
        return [pid for pid in _children(self.process.pid) if EXECUTOR in _arguments(pid)]

    def pythons(self) -> dict[int, Path]:
        """The processes in which its executors run Python now, and the program of each."""
        found: dict[int, Path] = {}
        left = self.executors()
        while left:
            for child in _children(left.pop()):
                left.append(child)
                with suppress(OSError):
                    program = Path(f"/proc/{child}/exe").readlink()
                    # Java starts each process by a helper of its own.
                    if program.name.startswith("python"):
                        found[child] = program
        return found

    def kill(self) -> int:
        """SIGKILL for the worker and all its executors; how many these were."""
        executors = self.executors()
        self.process.kill()
        for pid in executors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(executors)


@dataclass(kw_only=True)
class SparkCluster:
    """A master and workers; a context manager.

    The ``python3`` of the workers is an environment without any package: what a job needs it must bring.

    Attributes:
        secret: without which nobody gets a word from it.
        home: of its Spark.
    """

    folder: Path
    home: Path = SPARK_HOME
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)
    port: int = field(default_factory=free_port)
    ui_port: int = field(default_factory=free_port)
    workers: list[SparkWorker] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Starts all of them and waits until the workers are known to the master."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.conf_folder.mkdir()
        self.defaults.write_text(DEFAULTS.format(secret=self.secret))
        venv.create(self.folder / "bare", symlinks=True)
        self.process = ServerProcess("spark_master", self.folder)
        try:
            self.process.start(
                [self.home / "bin" / "spark-class", MASTER, "--host", _HOST, "--port", str(self.port),
                 "--webui-port", str(self.ui_port), "--properties-file", self.defaults],
                environ=self._environ(), is_ready=answers(f"{self.ui}/json/", 200), seconds=_START_SECONDS,
            )  # fmt: skip
            self.workers += map(self._new_worker, range(_WORKERS))
            with ThreadPoolExecutor(_WORKERS) as starting:
                list(starting.map(self.start, self.workers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends workers and master; the executors end with their workers."""
        for worker in self.workers:
            worker.process.stop()
        self.process.stop()

    def _new_worker(self, number: int) -> SparkWorker:
        """A worker that does not run yet."""
        name = f"spark_worker{number}"
        return SparkWorker(name=name, process=ServerProcess(name, self.folder), host=f"127.0.0.{number + 1}")

    @property
    def conf_folder(self) -> Path:
        """The configuration of every driver."""
        return self.folder / "conf"

    @property
    def defaults(self) -> Path:
        """The file of that folder from which master and workers read the same, so that their class path is Spark's own.

        With a folder more on it, a JVM cannot use the archive of Spark's classes: see `make.class_archive`.
        """
        return self.conf_folder / "spark-defaults.conf"

    @property
    def url(self) -> str:
        """The value of ``--master`` for spark-submit."""
        return f"spark://{_HOST}:{self.port}"

    @property
    def ui(self) -> str:
        """The URL of the master's web page."""
        return f"http://{_HOST}:{self.ui_port}"

    def start(self, worker: SparkWorker) -> None:
        """Starts a worker, also one that was killed, and waits until the master counts on it."""
        worker.port = free_port()
        command: list[str | Path] = [
            self.home / "bin" / "spark-class", WORKER, "--host", worker.host, "--webui-port", str(worker.port),
            "--cores", "1", "--memory", "1g", "--work-dir", self.folder / worker.name,
            "--properties-file", self.defaults, self.url,
        ]  # fmt: skip
        worker.process.start(
            command,
            environ=self._environ(),
            is_ready=lambda: worker.port in self._alive_ports(),
            seconds=_START_SECONDS,
        )

    def state(self) -> dict[str, Any]:
        """The master's report on workers and applications."""
        with urllib.request.urlopen(f"{self.ui}/json/", timeout=10) as answer:
            return json.load(answer)

    def _alive_ports(self) -> set[int]:
        alive = [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]
        return {int(worker["webuiaddress"].rpartition(":")[2]) for worker in alive}

    def _environ(self) -> dict[str, str]:
        java = Path(java_program())
        home = {"JAVA_HOME": os.environ["JAVA_HOME"]} if os.environ.get("JAVA_HOME") else {}
        return {
            **home,
            "PATH": f"{self.folder}/bare/bin:{java.parent}:/usr/bin:/bin",
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_NO_DAEMONIZE": "1",
        }


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                yield from (int(child) for child in (thread / "children").read_text().split())


def _arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
