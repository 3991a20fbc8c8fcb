"""Tasks that are refused memory."""

from typing import Any

import pyarrow as pa
import pytest

from icefloe.batch.context.references import TaskReference
from icefloe.batch.run.task_run import TaskRun
from icefloe.errors import TransientError
from icefloe.flow import Phase
from support.pipelines.workshop import Workshop


@pytest.mark.parametrize("cause", [MemoryError(), pa.ArrowMemoryError("malloc of size 64000064 failed")])
def test_a_task_without_memory_says_what_it_may_need(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, cause: MemoryError
) -> None:
    def take_memory(*_: Any, **__: Any) -> None:
        raise cause

    workshop.set(shuffle={"memory_bytes": "64MiB"}).append([1])
    monkeypatch.setattr("icefloe.batch.run.task_run.write_part", take_memory)
    batch = workshop.open()
    phase = Phase.INSERT_ONLY
    outcome = TaskRun(phase=phase, reference=TaskReference.of(batch.reference, batch.files, batch.plan))(0)
    assert isinstance(outcome.error, TransientError)
    said = f"task 0 of {phase} has no memory left ({str(cause) or 'MemoryError'}): it may need "
    assert outcome.error.sentence.startswith(f"{said}shuffle.memory_bytes (64.0 MiB)")
    assert "spark.executor.memoryOverhead" in outcome.error.sentence
    assert outcome.error.__cause__ is cause
