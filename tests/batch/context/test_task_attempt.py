import sys
import weakref
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from icefloe.batch.context.batch_folder import BatchFileMissingError, UnfinishedTasksError
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.task_attempt import FailedAttempt, TaskAttempt
from icefloe.batch.run_settings import Credentials
from icefloe.errors import IcefloeError, TerminalError, TransientError, UsageError
from icefloe.flow import Phase
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.storage.requests import RequestTotals
from support.pipelines.pipeline_files import settings_at
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

    with TaskAttempt("map task 0", batch.reference.for_tasks(batch.plan)) as attempt:
        task()
    assert isinstance(attempt.outcome.error, TransientError | TerminalError)
    assert [each() for each in held] == [None, None]


def test_a_module_that_another_thread_could_not_load_is_an_error_that_passes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.append([1])
    batch = workshop.open()
    monkeypatch.setitem(sys.modules, "icefloe.batch.map.carryover", ModuleType("icefloe.batch.map.carryover"))
    with TaskAttempt("map task 0", batch.reference.for_tasks(batch.plan)) as attempt:
        exec("from icefloe.batch.map.carryover import CarryOver", {"__name__": "icefloe.asking"})
    assert isinstance(attempt.outcome.error, TransientError)
    assert "is not loaded as a whole (cannot import name 'CarryOver'" in attempt.outcome.error.sentence


def test_references_to_tasks_open_no_catalog(workshop: Workshop) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    given = Credentials(catalog_properties={"token": "of the catalog"}, storage_options={"token": "of the storage"})
    reference = replace(batch.reference, credentials=given).for_tasks(batch.plan)
    travelling = reference.credentials
    assert (travelling.catalog_properties, travelling.storage_options) == ({}, {"token": "of the storage"})


def test_tasks_bring_the_plan_along_and_make_no_request_for_it(workshop: Workshop) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    running = batch.reference.for_tasks(batch.plan).open()
    assert running.plan is batch.plan
    assert running.requests.taken() == RequestTotals()


REFERENCE = BatchReference(
    plan_url="memory://job-errors/7/plan.json",
    credentials=Credentials(),
    settings=settings_at("memory://job-errors/checkpoint"),
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CorruptMapOutputError.of(7, 2, "its index file is gone"), TransientError),
        (UnfinishedTasksError.at(Phase.SHUFFLE_READ, "a range is left", then="it runs"), UnfinishedTasksError),
        (BatchFileMissingError("there is no plan", url="s3://lake"), BatchFileMissingError),
        (UsageError("no worker ran the task"), TerminalError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_comes_back_with_its_family_and_whether_earlier_tasks_run_again(
    error: IcefloeError, kind: type[IcefloeError]
) -> None:
    FailedAttempt.save(REFERENCE, "shuffle_write", type(error).__name__, error)
    document = FailedAttempt.load(REFERENCE, "shuffle_write", type(error).__name__)
    assert document is not None
    assert (type(document.as_error()), document.as_error().sentence) == (kind, error.sentence)
