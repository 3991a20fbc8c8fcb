from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.report import SUMMED, BatchDelivery, BatchReport
from icefloe.batch.status import PipelineStatus, RecentBatch, Trouble
from icefloe.checkpoint.records import Writer
from icefloe.documents import dump_document
from support.pipelines.workshop import Workshop


def published(workshop: Workshop, phase: str = "plan", **options: Any) -> PipelineStatus:
    status = PipelineStatus.publish(workshop.session(), phase=phase, **options)
    assert status is not None
    return status


def delivery_to(url: str) -> BatchDelivery:
    sums: dict[str, Any] = dict.fromkeys(SUMMED, 0)
    return BatchDelivery(parts=0, sink="kafka", url=url, visible_at="2026-01-01", lag_seconds=None, seconds=1, **sums)


def status_file(workshop: Workshop) -> Path:
    return workshop.folder / "storage/checkpoints/events/status.json"


def test_before_the_first_batch_only_table_and_head_are_known(workshop: Workshop) -> None:
    head = workshop.append([1, 2])
    status = published(workshop, dag_id="events")
    assert (status.pipeline, status.table, status.branch, status.dag_id) == ("events", "db.events", "main", "events")
    assert (status.cursor_snapshot_id, status.head_snapshot_id) == (None, head)
    assert (status.lag_snapshots, status.lag_rows, status.waiting_since) == (1, 2, status.head_timestamp)
    assert (status.open_batch, status.last_batch, status.recent, status.trouble) == (None, None, (), None)


def test_after_a_commit_the_cursor_and_the_counts_of_the_batch_are_reported(workshop: Workshop) -> None:
    head = workshop.append([1, 2, 3])
    report = workshop.deliver()
    assert report is not None
    status = published(workshop, phase="commit", report=report)
    assert (status.cursor_snapshot_id, status.lag_snapshots, status.waiting_since) == (head, 0, None)
    assert (status.last_batch, status.last_committed_at, status.open_batch) == (0, report.committed_at, None)
    [batch] = status.recent
    assert (batch.batch, batch.route, batch.rows, batch.bytes) == (0, "insert_only", 3, report.bytes_read)
    assert batch.seconds == report.seconds


def test_the_expiry_of_a_cursor_that_lies_behind_is_forecast(workshop: Workshop) -> None:
    first = workshop.append([1])
    workshop.deliver()
    assert published(workshop).next_expiry is None, "the head of a branch is kept"
    workshop.append([2])
    forecast = published(workshop).next_expiry
    assert forecast is not None
    assert forecast.snapshot_id == first


def test_a_failed_task_is_reported_without_the_table_and_forgotten_after_the_next_success(workshop: Workshop) -> None:
    workshop.append([1])
    published(workshop)
    session = workshop.session()
    trouble = Trouble.now("the disk is full", phase="shuffle_write", is_final=False)
    trouble.publish(session)
    told = PipelineStatus.load(session.checkpoint)
    assert told is not None
    assert told.trouble is not None
    assert (told.trouble.sentence, told.trouble.phase, told.head_snapshot_id) == (
        "the disk is full", "shuffle_write", workshop.head(),
    )  # fmt: skip
    assert published(workshop, phase="plan").trouble == told.trouble
    assert published(workshop, phase="commit").trouble is None


def delivered(workshop: Workshop, number: int) -> BatchReport:
    """One more batch, whose commit is published."""
    workshop.append([number])
    report = workshop.deliver()
    assert report is not None
    published(workshop, phase="commit", report=report)
    return report


def test_the_trouble_of_an_open_batch_outlasts_a_commit_that_is_repeated(workshop: Workshop) -> None:
    report = delivered(workshop, 0)
    workshop.append([1])
    workshop.open()
    published(workshop)
    session, trouble = workshop.session(), Trouble.now("the disk is full", phase="commit", is_final=False)
    trouble.publish(session)
    assert published(workshop, phase="commit", report=report).trouble == trouble


def test_an_old_batch_that_is_reported_again_leaves_the_last_batch_and_its_delivery(workshop: Workshop) -> None:
    reports = [replace(delivered(workshop, number), delivery=delivery_to(f"topic {number}")) for number in range(3)]
    for report in (*reports, reports[0]):
        status = published(workshop, phase="commit", report=report)
    assert ([each.batch for each in status.recent], status.last_batch) == ([0, 1, 2], 2)
    assert status.last_delivery == reports[2].delivery


def test_another_deployment_writes_no_trouble_into_the_status_of_the_owner(workshop: Workshop) -> None:
    workshop.append([1])
    published(workshop)
    session = workshop.session()
    session.checkpoint.claim_for(Writer(owner="production"), takes_over=True, new_id=None)
    before = session.checkpoint.status()
    trouble = Trouble.now("the checkpoint belongs to production", phase="plan", is_final=True)
    trouble.publish(replace(session, writer=Writer(owner="staging")))
    assert session.checkpoint.status() == before
    trouble.publish(replace(session, writer=Writer(owner="production")))
    assert session.checkpoint.status() != before


@pytest.mark.parametrize("data", ["{", "[]", '{"version": 2}', '{"version": 1, "pipeline": 3}'])
def test_a_damaged_or_foreign_status_is_ignored_and_written_again(
    workshop: Workshop, data: str, caplog: pytest.LogCaptureFixture
) -> None:
    workshop.append([1])
    published(workshop)
    status_file(workshop).write_text(data)
    assert PipelineStatus.load(workshop.session().checkpoint) is None
    assert "the next batch writes it again" in caplog.text
    assert published(workshop) == PipelineStatus.load(workshop.session().checkpoint)


def test_a_status_that_cannot_be_written_fails_nothing(workshop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    workshop.append([1])
    workshop.deliver()
    status_file(workshop).mkdir()
    (status_file(workshop) / "in the way").touch()
    published(workshop)
    assert "the status of events could not be written" in caplog.text


def trouble(phase: str) -> Trouble:
    return Trouble(sentence="the store timed out", phase=phase, at="2026-01-01T00:00:00+00:00", is_final=False)


def test_the_last_fifty_batches_are_kept_oldest_first(workshop: Workshop) -> None:
    report = delivered(workshop, 0)
    checkpoint, shown = workshop.session().checkpoint, RecentBatch.of(report)
    before = replace(published(workshop), recent=tuple(replace(shown, batch=number) for number in range(10, 60)))
    for number, expected in ((30, range(10, 60)), (60, range(11, 61)), (9, range(10, 60))):
        checkpoint.put_status(dump_document(before))
        late = replace(report, batch=replace(report.batch, batch_number=number))
        assert [each.batch for each in published(workshop, phase="commit", report=late).recent] == [*expected]


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
