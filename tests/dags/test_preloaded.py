import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from icefloe.orchestration.tasks import plugin_parts as preloaded
from icefloe.orchestration.tasks.plugin_parts import import_tasks, on_starting

pytestmark = pytest.mark.airflow

FORK = """
import os, sys
from icefloe.orchestration.tasks import calls
import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import LocalStore
pid = os.fork()
if pid == 0:
    store = LocalStore(sys.argv[1])
    obstore.put(store, "rows", b"rows")
    table = pa.table({"number": list(range(100_000))}).sort_by("number").group_by("number").aggregate([])
    is_done = obstore.get(store, "rows").bytes() == b"rows" and pc.sum(table["number"]).as_py() == 4_999_950_000
    os._exit(0 if is_done else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""

START = """
import os, sys
import airflow.jobs.scheduler_job_runner
from icefloe.orchestration.tasks.plugin_parts import import_tasks
import_tasks()
import pyarrow as pa
print(repr(os.environ.get("ARROW_DEFAULT_MEMORY_POOL")), pa.default_memory_pool().backend_name)
"""


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that a component imports."""
    found: list[str] = []
    monkeypatch.setattr(preloaded, "import_module", found.append)
    return found


@pytest.mark.parametrize(
    ("component", "executor", "is_preloaded"),
    [
        ("scheduler", "LocalExecutor", True),
        ("scheduler", "CeleryExecutor,LocalExecutor", True),
        ("scheduler", "CeleryExecutor", False),
        ("triggerer", "LocalExecutor", False),
    ],
)
def test_only_a_scheduler_that_forks_its_tasks_imports_their_modules(
    monkeypatch: pytest.MonkeyPatch, imported: list[str], component: str, executor: str, *, is_preloaded: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setattr("airflow.executors.executor_loader._executor_names", [])
    runner = f"airflow.jobs.{component}_job_runner"
    for name in [name for name in sys.modules if name.endswith("_job_runner")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, runner, ModuleType(runner))
    import_tasks()
    assert imported == (["icefloe.orchestration.tasks.calls"] if is_preloaded else [])


def test_the_start_of_a_task_imports_nothing(imported: list[str]) -> None:
    on_starting("the marker of a task's runner")
    assert imported == []


def test_a_fork_of_such_a_scheduler_uses_stores_and_threads_of_its_own(tmp_path: os.PathLike[str]) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], check=True, timeout=60)


@pytest.mark.parametrize(("named", "pool"), [(None, "system"), ("", "system"), ("mimalloc", "mimalloc")])
def test_such_a_scheduler_takes_the_memory_pool_of_tasks_and_leaves_its_environment_as_it_is(
    monkeypatch: pytest.MonkeyPatch, named: str | None, pool: str
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    if named is not None:
        monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", named)
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split()[-2:] == [repr(named), pool]


def test_a_scheduler_starts_without_modules_that_cannot_be_imported(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    (Path(tmp_path) / ".pyiceberg.yaml").write_text("catalog: {lake: {token: very-secret-token")
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=60)
    assert "PyIceberg's configuration" in done.stdout + done.stderr
    assert "very-secret-token" not in done.stdout + done.stderr
