import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from icefloe.batch.open.next_range import RequestedRange, plan_request
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import UsageError
from icefloe.iceberg.history.loaded_table import LoadedTable
from support.pipelines.workshop import OpenBatch, Workshop


def planned(workshop: Workshop, **bounds: Any) -> tuple[int | None, int | None]:
    request = RequestedRange(**bounds)
    found = plan_request(
        LoadedTable(workshop.table), request, branch="main", on_rollback="compensate", commit_groups="fuse"
    )
    return found.after_snapshot_id, found.up_to_snapshot_id


def time_of(workshop: Workshop, snapshot_id: int) -> datetime:
    snapshot = workshop.table.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def requested_range(**bounds: Any) -> RequestedRange:
    return RequestedRange(**bounds)


@pytest.mark.parametrize("end", ["after", "up_to"])
def test_an_end_is_given_once_and_timestamps_have_an_offset(end: str) -> None:
    now = datetime.now(UTC)
    with pytest.raises(UsageError, match=f"{end}_snapshot_id and {end}_timestamp were both given"):
        requested_range(**{f"{end}_snapshot_id": 1, f"{end}_timestamp": now})
    with pytest.raises(UsageError, match=f"{end}_timestamp .* has no offset: end it with Z"):
        requested_range(**{f"{end}_timestamp": now.replace(tzinfo=None)})


@pytest.mark.parametrize("end", ["after", "up_to"])
@pytest.mark.parametrize(
    ("bound", "value", "expected"),
    [
        ("snapshot_id", "4711", "must be an int, not '4711'"),
        ("snapshot_id", True, "must be an int, not True"),
        ("timestamp", "2026-01-31", "must be a datetime with an offset, not '2026-01-31'"),
    ],
)
def test_a_bound_of_another_type_is_refused(end: str, bound: str, value: object, expected: str) -> None:
    with pytest.raises(UsageError, match=f"^{end}_{bound} {expected}$"):
        requested_range(**{f"{end}_{bound}": value})


def test_a_range_of_times_that_ends_before_it_begins_is_refused() -> None:
    after = datetime(2026, 1, 2, tzinfo=UTC)
    RequestedRange(after_timestamp=after, up_to_timestamp=after)
    with pytest.raises(UsageError, match=r"^the range ends at 2026-01-01T.*, before it begins at 2026-01-02T"):
        RequestedRange(after_timestamp=after, up_to_timestamp=after - timedelta(days=1))


def test_bounds_are_ids_or_the_snapshots_that_were_current_at_a_time(workshop: Workshop) -> None:
    first, second, third = (workshop.append([number]) for number in range(3))
    assert planned(workshop) == (None, third)
    assert planned(workshop, after_snapshot_id=first, up_to_snapshot_id=second) == (first, second)
    assert planned(workshop, after_timestamp=time_of(workshop, first)) == (first, third)
    assert planned(workshop, up_to_timestamp=time_of(workshop, second)) == (None, second)


@pytest.fixture
def request_(workshop: Workshop) -> RequestedRange:
    """A range without an end; the table has one commit behind its start."""
    request = RequestedRange(after_snapshot_id=workshop.append(range(10)))
    workshop.append([10])
    return request


@pytest.fixture
def first(workshop: Workshop, request_: RequestedRange) -> OpenBatch:
    """Its backfill, planned before the table moved on."""
    batch = workshop.open(request_)
    workshop.append([11])
    return batch


def test_a_repeated_request_resumes_the_open_backfill_and_says_so(
    workshop: Workshop, request_: RequestedRange, first: OpenBatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        again = workshop.prepare(request_)
    assert again.plan == first.plan
    assert again.is_resumed
    assert f"resuming backfill {first.plan.backfill_id}, which is open" in caplog.text


def test_requests_with_an_end_another_start_or_another_result_have_backfills_of_their_own(
    workshop: Workshop, request_: RequestedRange, first: OpenBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, third = workshop.snapshot_ids()
    ids = [first.plan.backfill_id, workshop.open(RequestedRange(after_snapshot_id=second)).plan.backfill_id]
    ids.append(workshop.set(columns=["id"]).open(request_).plan.backfill_id)
    workshop.set(columns=None)
    # With an end, the range says all, and nothing is listed.
    monkeypatch.setattr(Checkpoint, "open_backfills", lambda _: pytest.fail("nothing is to be listed"))
    ids.append(workshop.open(replace(request_, up_to_snapshot_id=third)).plan.backfill_id)
    assert len(set(ids)) == 4


def test_a_backfill_that_another_run_commits_after_it_was_listed_is_not_taken_for_the_new_range(
    workshop: Workshop, request_: RequestedRange, first: OpenBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Checkpoint.open_backfills

    def overtaken(checkpoint: Checkpoint) -> list[str]:
        found = listed(checkpoint)
        first.deliver()
        return found

    monkeypatch.setattr(Checkpoint, "open_backfills", overtaken)
    assert workshop.open(request_).plan.spec.up_to_snapshot_id == workshop.snapshot_ids()[-1]
