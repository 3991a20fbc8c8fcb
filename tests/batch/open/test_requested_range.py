from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from icefloe.batch.open.next_range import RequestedRange, plan_request
from icefloe.errors import UsageError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.scan.steps import SnapshotRange
from support.pipelines.workshop import Workshop


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


def test_a_range_that_ends_before_the_first_snapshot_is_empty(workshop: Workshop) -> None:
    first = workshop.append([1])
    before = time_of(workshop, first) - timedelta(hours=1)
    request = RequestedRange(up_to_timestamp=before)
    found = plan_request(
        LoadedTable(workshop.table), request, branch="main", on_rollback="compensate", commit_groups="fuse"
    )
    assert found == SnapshotRange(after_snapshot_id=None, up_to_snapshot_id=None)
