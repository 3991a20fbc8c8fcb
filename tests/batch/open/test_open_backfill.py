"""A request without an end goes on with the backfill that it began before, also if the table has moved on since."""

import logging
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from icefloe.batch.open.next_range import RequestedRange
from icefloe.checkpoint.log import Checkpoint
from support.pipelines.workshop import OpenBatch, Workshop


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


def test_once_the_backfill_is_committed_the_same_request_means_the_new_head(
    workshop: Workshop, request_: RequestedRange, first: OpenBatch
) -> None:
    first.deliver()
    second = workshop.open(request_)
    assert second.plan.spec.up_to_snapshot_id == workshop.snapshot_ids()[-1]
    assert second.deliver().counts["insert"] == 2


@pytest.mark.parametrize("start", ["none", "time"])
def test_a_start_by_time_and_the_start_of_the_history_are_starts_too(workshop: Workshop, start: str) -> None:
    workshop.append(range(10))
    request = RequestedRange() if start == "none" else RequestedRange(after_timestamp=datetime.now(UTC))
    workshop.append([10])
    first = workshop.open(request)
    workshop.append([11])
    assert workshop.open(request).plan.backfill_id == first.plan.backfill_id


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
