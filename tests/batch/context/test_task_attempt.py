import sys
import weakref
from types import ModuleType

import numpy as np
import pytest

from icefloe.batch.context.references import TaskReference
from icefloe.batch.context.task_attempt import TaskAttempt
from icefloe.errors import TerminalError, TransientError
from support.pipelines.workshop import Workshop


@pytest.mark.parametrize("kind", [OSError, MemoryError])
def test_an_outcome_holds_nothing_that_its_task_had_in_memory(workshop: Workshop, kind: type[Exception]) -> None:
    workshop.append([1])
    batch = workshop.open()
    held: list[weakref.ref[np.ndarray]] = []

    def task() -> None:
        buffer = np.zeros(1_000)
        held.append(weakref.ref(buffer))
        try:
            fail(buffer)
        except OSError as cause:
            raise TransientError("the disk is full") from cause

    def fail(buffer: np.ndarray) -> None:
        inner = buffer.copy()
        held.append(weakref.ref(inner))
        raise kind

    with TaskAttempt("map task 0", TaskReference.of(batch.reference, batch.plan)) as attempt:
        task()
    assert isinstance(attempt.outcome.error, TransientError | TerminalError)
    assert [each() for each in held] == [None, None]


def test_a_module_that_another_thread_could_not_load_is_an_error_that_passes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.append([1])
    batch = workshop.open()
    monkeypatch.setitem(sys.modules, "icefloe.batch.map.carryover", ModuleType("icefloe.batch.map.carryover"))
    with TaskAttempt("map task 0", TaskReference.of(batch.reference, batch.plan)) as attempt:
        exec("from icefloe.batch.map.carryover import CarryOver", {"__name__": "icefloe.asking"})
    assert isinstance(attempt.outcome.error, TransientError)
    assert "is not loaded as a whole (cannot import name 'CarryOver'" in attempt.outcome.error.sentence


def test_a_name_that_others_import_from_us_and_that_is_not_there_is_their_error(workshop: Workshop) -> None:
    workshop.append([1])
    batch = workshop.open()
    with (
        pytest.raises(ImportError),
        TaskAttempt("map task 0", TaskReference.of(batch.reference, batch.plan)),
    ):
        from icefloe.batch.map.carryover import Gone  # type: ignore[attr-defined]  # noqa: F401
