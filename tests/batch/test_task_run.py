"""One task of a phase: refused memory, and the look that it is spared."""

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from icefloe.batch.context.references import TaskReference
from icefloe.batch.phases import MapTaskRun
from icefloe.errors import TransientError
from icefloe.flow import Phase
from icefloe.shuffle.map_output_log import MapOutputLog, MapOutputState
from support.pipelines.workshop import Workshop


@pytest.mark.parametrize("cause", [MemoryError(), pa.ArrowMemoryError("malloc of size 64000064 failed")])
def test_a_task_without_memory_says_what_it_may_need(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, cause: MemoryError
) -> None:
    def take_memory(*_: Any, **__: Any) -> None:
        raise cause

    workshop.set(shuffle={"memory_bytes": "64MiB"}).append([1])
    monkeypatch.setattr("icefloe.batch.phases.write_part", take_memory)
    batch = workshop.open()
    phase = Phase.INSERT_ONLY
    reference = TaskReference.of(batch.reference, batch.plan)
    outcome = MapTaskRun(phase=phase, reference=reference, files=batch.files)(0)
    assert isinstance(outcome.error, TransientError)
    said = f"task 0 of {phase} has no memory left ({str(cause) or 'MemoryError'}): it may need "
    assert outcome.error.sentence.startswith(f"{said}shuffle.memory_bytes (64.0 MiB)")
    assert "spark.executor.memoryOverhead" in outcome.error.sentence
    assert outcome.error.__cause__ is cause


def test_a_map_task_commits_the_generation_that_its_phase_found_open(workshop: Workshop) -> None:
    workshop.append([1, 2])
    workshop.deliver()
    workshop.update([1], value=2.0)
    batch = workshop.open()
    batch.batch_folder.map_outputs.void(0, 0, "a test says so")
    batch.run(Phase.SHUFFLE_WRITE)
    state = batch.batch_folder.map_outputs.current(0)
    assert state.record is not None
    assert (state.generation, state.record.data is not None and state.record.data.key.startswith("0.1.")) == (1, True)
    assert batch.store.size("0.0") is None, "the task began with a generation that was void"
    batch.deliver()
    workshop.require_exact(batch.plan, workshop.changes(1))


def test_a_map_task_makes_no_look_for_the_record_that_its_phase_has_looked_for(workshop: Workshop) -> None:
    workshop.append([1, 2])
    batch = workshop.open()
    looked: list[str] = []

    class Looking(MapOutputLog):
        def current(self, map_id: int) -> MapOutputState:
            looked.append(f"{map_id}")
            return super().current(map_id)

    with patch("icefloe.batch.context.batch_folder.MapOutputLog", Looking):
        batch.deliver()
    assert looked == []
