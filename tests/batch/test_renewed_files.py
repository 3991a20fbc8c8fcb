from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from batch.guarded_files import GuardedFiles
from icefloe.batch import phases as file_access
from icefloe.batch.phases import run_phase
from icefloe.flow import Phase
from icefloe.iceberg.catalog.confined_io import TableAccess
from icefloe.iceberg.catalog.file_io import FileRefusedError
from support.pipelines.workshop import InOrder, OpenBatch, Workshop

TASKS = 5


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """A batch of the insert-only route, one file for each map task."""
    for number in range(TASKS):
        workshop.append([number])
    opened = workshop.set(shuffle={"map_task_bytes": 1}).open()
    assert opened.plan.num_map_tasks == TASKS
    return opened


@pytest.fixture
def tokens(batch: OpenBatch, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that the catalog handed out; the newest is valid."""
    handed_out: list[str] = []
    numbers = count()

    def files(*_: object, **__: Any) -> TableAccess:
        GuardedFiles.valid = str(next(numbers))
        handed_out.append(GuardedFiles.valid)
        return guarded(batch, GuardedFiles.valid)

    monkeypatch.setattr(file_access, "table_files", files)
    return handed_out


def guarded(batch: OpenBatch, token: str) -> TableAccess:
    return replace(batch.files, properties={"py-io-impl": "batch.guarded_files.GuardedFiles", "token": token})


class Ending(InOrder):
    """Ends the token after some tasks of each round."""

    def __init__(self, tasks: int) -> None:
        super().__init__()
        self.tasks = tasks

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        first = super().map(function, numbers[: self.tasks])
        GuardedFiles.valid = "none"
        return first + super().map(function, numbers[self.tasks :])


@pytest.mark.parametrize(("tasks", "handed_out"), [(1, 5), (2, 3), (4, 2), (5, 1)])
def test_tasks_that_were_refused_files_run_again_with_what_the_catalog_gives_now(
    batch: OpenBatch, tokens: list[str], tasks: int, handed_out: int
) -> None:
    run_phase(Phase.INSERT_ONLY, batch.reference, Ending(tasks))
    assert len(tokens) == handed_out
    report = batch.commit()
    assert report.batch.counts["insert"] == TASKS


def test_new_credentials_that_bring_nothing_forward_are_the_last(batch: OpenBatch, tokens: list[str]) -> None:
    with pytest.raises(FileRefusedError, match="the storage denied access; check the credentials"):
        run_phase(Phase.INSERT_ONLY, batch.reference, Ending(0))
    assert len(tokens) == 3


def test_the_same_credentials_are_not_tried_twice(batch: OpenBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_access, "table_files", lambda *_, **__: guarded(batch, "ended"))
    engine = InOrder()
    with pytest.raises(FileRefusedError):
        run_phase(Phase.INSERT_ONLY, batch.reference, engine)
    assert engine.given == [list(range(TASKS))]


def test_ranges_ask_no_catalog_for_the_tables_files(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.update([1], value=2.0)
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    with monkeypatch.context() as patched:
        patched.setattr(file_access, "table_files", None)
        batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(1))
