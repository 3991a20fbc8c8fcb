import pytest

from icefloe.batch.open.batch_bounds import ScanTooLargeError, refuse_large_scan, steps_within
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.summaries import file_bytes_bound
from icefloe.iceberg.scan.scan_tasks import plan_scan_tasks
from icefloe.iceberg.step import Step
from icefloe.iceberg.steps.steps import plan_range
from support.pipelines.workshop import Workshop, rows


@pytest.fixture
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
        assert steps_within(workshop.table, steps, max_bytes=bound) == max(1, fitting)


def test_one_step_is_taken_whatever_it_reads(workshop: Workshop, steps: tuple[Step, ...]) -> None:
    assert steps_within(workshop.table, steps[3:], max_bytes=1) == 1
    assert steps_within(workshop.table, steps[:1], max_bytes=1) == 1
    assert steps_within(workshop.table, (), max_bytes=1) == 0


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
    monkeypatch.setattr("icefloe.batch.open.batch_bounds.plan_scan_tasks", None)
    assert steps_within(workshop.table, steps, max_bytes=2**40) == len(steps)


def test_a_batch_that_reads_too_much_is_refused_with_both_numbers() -> None:
    refuse_large_scan(10, max_scan_bytes=10, batch="batch 3 of events")
    refuse_large_scan(10, max_scan_bytes=None, batch="batch 3 of events")
    sentence = (
        r"^batch 3 of events would read 2,048 bytes of files \(2\.0 KiB\), and max_scan_bytes is 1,024 \(1\.0 KiB\): "
        "raise max_scan_bytes, or make batches smaller by max_steps_per_batch or max_bytes_per_batch$"
    )
    with pytest.raises(ScanTooLargeError, match=sentence) as refused:
        refuse_large_scan(2048, max_scan_bytes=1024, batch="batch 3 of events")
    assert (refused.value.scan_bytes, refused.value.max_scan_bytes, refused.value.exit_code) == (2048, 1024, 65)
