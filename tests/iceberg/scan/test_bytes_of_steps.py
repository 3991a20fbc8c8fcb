import pytest

from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.summaries import file_bytes_bound
from icefloe.iceberg.scan.steps import steps_within
from icefloe.iceberg.step import Step
from support.pipelines.workshop import Workshop
from support.tables.events import rows
from support.tables.planning_tables import plan_range, plan_scan_tasks


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A table whose snapshots the tests below only read."""
    return Workshop.create(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="module")
def steps(workshop: Workshop) -> tuple[Step, ...]:
    """Appends, updates that remove what they appended, a delete."""
    for start in range(0, 300, 100):
        workshop.append(range(start, start + 100))
    workshop.update(range(50), value=2.0)
    workshop.replace(rows(range(500)))
    workshop.delete([3])
    return plan_range(workshop.table).steps


def file_bytes(workshop: Workshop, steps: tuple[Step, ...]) -> int:
    return plan_scan_tasks(workshop.table, steps).file_size_bytes


def test_as_many_steps_are_taken_as_read_no_more_than_the_bound(workshop: Workshop, steps: tuple[Step, ...]) -> None:
    sizes = [file_bytes(workshop, steps[:count]) for count in range(1, len(steps) + 1)]
    assert sizes == sorted(sizes)
    for bound in {each + more for each in sizes for more in (-1, 0, 1)}:
        fitting = sum(size <= bound for size in sizes)
        assert steps_within(LoadedTable(workshop.table), steps, max_bytes=bound) == max(1, fitting)


def test_one_step_is_taken_whatever_it_reads(workshop: Workshop, steps: tuple[Step, ...]) -> None:
    assert steps_within(LoadedTable(workshop.table), steps[3:], max_bytes=1) == 1
    assert steps_within(LoadedTable(workshop.table), steps[:1], max_bytes=1) == 1
    assert steps_within(LoadedTable(workshop.table), (), max_bytes=1) == 0


def test_summaries_never_promise_less_than_is_read(workshop: Workshop, steps: tuple[Step, ...]) -> None:
    for first in range(len(steps)):
        for last in range(first, len(steps)):
            part = steps[first : last + 1]
            bound = file_bytes_bound(History.of(workshop.table).snapshots, part)
            assert bound is not None
            assert bound >= file_bytes(workshop, part)


def test_no_manifest_is_read_if_summaries_prove_that_all_fits(
    workshop: Workshop, steps: tuple[Step, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icefloe.iceberg.scan.steps.ScanPlan", None)
    assert steps_within(LoadedTable(workshop.table), steps, max_bytes=2**40) == len(steps)
