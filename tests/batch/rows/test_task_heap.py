"""The heap of a task."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from icefloe.batch.context.references import TaskReference
from icefloe.batch.rows.task_heap import share_heap
from icefloe.batch.run.task_run import TaskRun
from icefloe.flow import Phase
from support.pipelines.workshop import Workshop


@pytest.fixture(autouse=True)
def arrow_pool() -> Iterator[None]:
    """Begins with another pool than tasks take, and restores the pool of this process."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.mimalloc_memory_pool())
    yield
    pa.set_memory_pool(before)


@pytest.mark.parametrize(("environ", "pool"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")])
def test_arrow_takes_memory_from_the_c_library_unless_the_environment_names_a_pool(
    environ: dict[str, str], pool: str
) -> None:
    share_heap(environ)
    assert pa.default_memory_pool().backend_name == pool


def test_a_task_shares_the_heap(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    workshop.append([1])
    batch = workshop.open()
    TaskRun(phase=Phase.INSERT_ONLY, reference=TaskReference.of(batch.reference, batch.files, batch.plan))(0)
    assert pa.default_memory_pool().backend_name == "system"
