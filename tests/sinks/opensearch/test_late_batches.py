"""Batches, loads and claims that come late, or too early, one guard at a time."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.sink import SupersededError
from sinks.opensearch.batches import ORIGIN, changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed, sink_at
from support.sinks.fake_cluster import FakeCluster

ADA = part(changes(("+", 1, "Ada")))


def test_a_late_delivery_brings_no_row_back_whose_hard_deletion_is_forgotten(cluster: FakeCluster) -> None:
    """A shard that starts again has forgotten all deletions, so versions alone refuse nothing."""
    sink, late = (claimed(cluster, deletes="hard", bulk_bytes=1_000) for _ in range(2))
    run(sink, proven(0), ADA)
    rows = part(changes(*(("+", key, "x" * 900) for key in (2, 3, 4))))
    begun = late.begin(proven(1))

    def stopped(_: bytes) -> None:
        cluster.refusal = lambda _: None
        run(sink, proven(1), rows)
        run(sink, proven(2), part(changes(("-", 3, "x" * 900), ("-", 4, "x" * 900))))
        cluster.forget_deletions()

    cluster.refusal = stopped
    with pytest.raises(SupersededError):
        late.deliver(proven(1), begun, rows)
    assert [row["id"] for row in rows_of(sink)] == [1, 2]


def test_a_batch_does_not_end_after_a_later_one_has_begun(cluster: FakeCluster) -> None:
    sink, late = (claimed(cluster) for _ in range(2))
    run(sink, proven(0), ADA)
    begun = late.begin(proven(1))
    sink.begin(proven(2))
    with pytest.raises(SupersededError):
        late.finish(proven(1), begun, [])


@pytest.mark.parametrize("owner", ["checkpoint-2", "checkpoint-3"])
def test_a_load_after_the_claim_was_lost_counts_as_later_than_all_before(cluster: FakeCluster, owner: str) -> None:
    """Batch 4 of the second owner was the last one; a third one begins at 0."""
    run(claimed(cluster), proven(7, is_load=True), ADA)
    second = replace(ORIGIN, owner="checkpoint-2")
    sink_at(cluster).claim(second, takes_over=True)
    run(sink_at(cluster), proven(4, is_load=True, origin=second), ADA)
    del cluster.indexes["people-icefloe"]
    origin, number = replace(ORIGIN, owner=owner), 5 if owner == second.owner else 0
    sink = sink_at(cluster)
    sink.claim(origin)
    run(sink, proven(number, is_load=True, origin=origin), part(changes(("+", 2, "Bo"))))
    assert rows_of(sink) == [{"id": 2, "name": "Bo"}]
    assert len(cluster.indexes) == 2


def test_a_replay_does_not_replace_an_index_whose_claim_was_lost(cluster: FakeCluster) -> None:
    run(claimed(cluster), proven(0), ADA)
    del cluster.indexes["people-icefloe"]
    sink = claimed(cluster)
    with pytest.raises(TerminalError, match="knows nothing of pipeline people, and batch 3 goes on where others"):
        sink.begin(proven(3, is_replay=True))
    assert [row["name"] for row in rows_of(sink)] == ["Ada"]


def test_a_batch_that_replaces_nothing_is_not_written_among_documents_of_the_owner_before(cluster: FakeCluster) -> None:
    run(claimed(cluster), proven(7), ADA)
    other = replace(ORIGIN, owner="checkpoint-2")
    sink = sink_at(cluster)
    sink.claim(other, takes_over=True)
    with pytest.raises(TerminalError, match="batch 1 of pipeline people replaces nothing: run `icefloe reset"):
        sink.begin(replace(proven(1), origin=other))
    run(sink, replace(proven(2, is_load=True), origin=other), part(changes(("+", 2, "Bo"))))
    run(sink, replace(proven(3), origin=other), part(changes(("+", 3, "Cy"))))
    assert [row["id"] for row in rows_of(sink)] == [2, 3]


def test_of_two_that_take_an_index_over_at_once_one_gets_it(cluster: FakeCluster) -> None:
    claimed(cluster)
    second, third = replace(ORIGIN, owner="checkpoint-2"), replace(ORIGIN, owner="checkpoint-3")
    real, writes = cluster.perform_request, count()

    def overtake(method: str, url: str, **given: Any) -> Any:
        if (method, url) == ("PUT", "/people-icefloe/_doc/claim") and next(writes) == 0:
            sink_at(cluster).claim(third, takes_over=True)
        return real(method, url, **given)

    cluster.perform_request = overtake  # type: ignore[method-assign]
    with pytest.raises(TerminalError, match="checkpoint-3"):
        sink_at(cluster).claim(second, takes_over=True)
    sink_at(cluster).claim(third, only_looks=True)
