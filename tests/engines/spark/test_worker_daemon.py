import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

import icefloe
from icefloe.engines.spark.package_zip import build_package_zip
from icefloe.engines.spark.worker_daemon import MODULE

SECRET = "of a daemon of this test"
LIBRARY = Path(icefloe.__file__).parent
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at the libraries in /proc")


@contextmanager
def worker_of_a_daemon(python_path: Path) -> Iterator[psutil.Process]:
    """The process that a daemon forks when Spark connects to it, before it was sent anything."""
    environ = {**os.environ, "PYTHONPATH": str(python_path), "PYTHON_WORKER_FACTORY_SECRET": SECRET}
    environ["OMP_NUM_THREADS"] = "1"  # as Spark sets it for the cores of a task
    with subprocess.Popen(
        [sys.executable, "-m", MODULE, "pyspark.worker"], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        try:
            port = int.from_bytes(daemon.stdout.read(4))
            with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
                yield psutil.Process(int.from_bytes(answers.read(4)))
        finally:
            daemon.stdin.close()  # Spark ends it so


def has_library(process: psutil.Process, name: str) -> bool:
    return any(f"/{name}/" in each.path for each in process.memory_maps())


def test_a_worker_begins_with_the_modules_of_a_task(tmp_path: Path) -> None:
    with worker_of_a_daemon(build_package_zip(tmp_path)) as worker:
        # Spark's own modules load neither.
        assert has_library(worker, "obstore")
        assert has_library(worker, "pandas")


def test_the_daemon_has_no_thread_that_its_workers_would_lack(tmp_path: Path) -> None:
    with worker_of_a_daemon(build_package_zip(tmp_path)) as worker:
        daemon = worker.parents()[0]
        threads = {Path(f"/proc/{daemon.pid}/task/{each.id}/comm").read_text().strip() for each in daemon.threads()}
        # The allocator's own thread is there in Spark's daemon too; the allocator starts it again after a fork.
        assert threads - {"jemalloc_bg_thd"} == {daemon.name()}


def test_a_python_without_the_libraries_still_gives_a_worker_that_can_say_so(tmp_path: Path) -> None:
    module = Path(*MODULE.split(".")).with_suffix(".py")
    (tmp_path / module).parent.mkdir(parents=True)
    shutil.copy(LIBRARY.parent / module, tmp_path / module)
    for folder in module.parents[:-1]:
        (tmp_path / folder / "__init__.py").touch()
    with worker_of_a_daemon(tmp_path) as worker:
        assert worker.is_running()
        assert not has_library(worker, "obstore")
