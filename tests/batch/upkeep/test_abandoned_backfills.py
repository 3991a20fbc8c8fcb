"""``icefloe abandon --backfill``: a backfill that is stuck ends without changes, and its range can be started again."""

import pytest

from icefloe.batch.open.next_range import RequestedRange
from support.pipelines.interrupted import Killed, killed_at
from support.pipelines.operated import Operated
from support.pipelines.workshop import OpenBatch


@pytest.fixture
def request_(operated: Operated) -> RequestedRange:
    """The range of one update, which no batch of the pipeline has delivered."""
    after = operated.head()
    operated.update([1], value=2.0)
    return RequestedRange(after_snapshot_id=after)


@pytest.fixture
def batch(operated: Operated, request_: RequestedRange) -> OpenBatch:
    """The open batch of a backfill, on which all tasks but commit are done."""
    return operated.open(request_).run_route()


def arguments(batch: OpenBatch) -> tuple[object, ...]:
    return ("--backfill", batch.plan.backfill_id, "--yes", "--json")


def test_an_abandoned_backfill_delivers_nothing_and_its_range_can_be_started_again(
    operated: Operated, batch: OpenBatch, request_: RequestedRange
) -> None:
    looked = operated.abandon("--backfill", batch.plan.backfill_id, "--dry-run")
    assert (looked.code, "nothing was changed" in looked.out) == (0, True), looked.err
    done = operated.abandon(*arguments(batch))
    assert (done.code, done.document["batch"], done.document["outcome"]) == (0, 0, "abandoned"), done.err
    place = operated.sink / f"_backfills/{batch.plan.backfill_id}"
    assert [path.name for path in (place / "batch=0").iterdir()] == ["_manifest.json"]
    assert operated.abandon(*arguments(batch)).document["batch"] is None
    again = operated.open(request_)
    assert (again.plan.batch_number, again.plan.backfill_id) == (1, batch.plan.backfill_id)
    assert again.deliver().batch.counts["update_after"] == 1
    assert operated.prepare(request_).is_committed
    operated.require_consistent()


def test_an_abandon_that_was_killed_right_after_the_manifest_is_completed_when_the_range_is_started_again(
    operated: Operated, batch: OpenBatch, request_: RequestedRange
) -> None:
    with killed_at(2) as writes, pytest.raises(Killed):
        operated.abandon(*arguments(batch))
    assert "_manifest.json" in writes[-1]
    again = operated.open(request_)
    assert (again.plan.batch_number, again.plan.backfill_id) == (1, batch.plan.backfill_id)
    assert operated.record(f"backfills/{batch.plan.backfill_id}/commits/0.json")["ending"]["outcome"] == "abandoned"


def test_a_backfill_that_was_never_begun_is_refused(operated: Operated) -> None:
    done = operated.abandon("--backfill", "mistyped", "--yes")
    assert done.code == 65
    assert "pipeline events has no backfill mistyped: it has none; correct the ID" in done.err
