import pytest

from icefloe.batch.status.pipeline_status import PipelineStatus, RecentBatch, Trouble, with_batch


def recent(batch: int, rows: int = 1) -> RecentBatch:
    return RecentBatch(batch=batch, committed_at="2026-01-01", route="shuffle", rows=rows, bytes=1, seconds=None)


def trouble(phase: str) -> Trouble:
    return Trouble(sentence="the store timed out", phase=phase, at="2026-01-01T00:00:00+00:00", is_final=False)


def test_the_last_fifty_batches_are_kept_oldest_first() -> None:
    batches: tuple[RecentBatch, ...] = ()
    for number in range(60):
        batches = with_batch(batches, recent(number))
    assert [each.batch for each in batches] == list(range(10, 60))


def test_a_batch_that_is_reported_twice_counts_once() -> None:
    batches = with_batch(with_batch((), recent(3, rows=1)), recent(3, rows=2))
    assert batches == (recent(3, rows=2),)


def test_a_batch_that_is_reported_late_takes_the_place_of_its_number() -> None:
    later = with_batch(with_batch((), recent(3)), recent(4))
    assert [each.batch for each in with_batch(later, recent(1))] == [1, 3, 4]
    assert [each.batch for each in with_batch(later, recent(3))] == [3, 4]
    fifty = tuple(recent(number) for number in range(10, 60))
    assert with_batch(fifty, recent(9)) == fifty


@pytest.mark.parametrize(
    ("failed", "succeeded", "is_over"),
    [
        ("plan", "plan", True),
        ("wait_for_snapshot", "plan", True),
        ("shuffle_read", "plan", False),
        ("shuffle_read", "commit", True),
        ("cleanup", "commit", False),
        ("a task of a later release", "plan", True),
    ],
)
def test_trouble_is_over_when_its_phase_or_a_later_one_succeeded(failed: str, succeeded: str, is_over: bool) -> None:
    assert trouble(failed).is_over_after(succeeded) is is_over


def test_trouble_leaves_all_else_as_it_was() -> None:
    status = PipelineStatus(
        pipeline="p", table="t", branch="main", updated_at="2025", last_batch=4, recent=(recent(4),)
    )
    told = status.with_trouble(trouble("plan"))
    assert (told.last_batch, told.recent, told.updated_at) == (4, (recent(4),), "2026-01-01T00:00:00+00:00")
