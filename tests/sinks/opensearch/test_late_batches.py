"""Batches, loads and claims that come late, or too early, one guard at a time."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from icefloe.sinks.opensearch.claims import IndexClaimedError
from icefloe.sinks.part_sink import SupersededError
from sinks.opensearch.batches import ORIGIN, changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed, sink_at
from support.sinks.fake_cluster import FakeCluster

ADA = part(changes(("+", 1, "Ada")))


def test_a_load_in_parts_is_shown_with_its_last_part() -> None:
    cluster = FakeCluster()
    sink = claimed(cluster)
    run(sink, proven(0, ends_load=False), ADA)
    assert not any("people" in index.aliases for index in cluster.indexes.values())
    run(sink, proven(1, is_load=True, begins_anew=False, ends_load=True), part(changes(("+", 2, "Bo"))))
    assert [row["id"] for row in rows_of(sink)] == [1, 2]


def test_a_batch_that_finds_a_document_of_a_later_one_ends_there() -> None:
    cluster = FakeCluster()
    sink, late = claimed(cluster), sink_at(cluster)
    run(sink, proven(0), ADA)
    batch = proven(1)
    begun = late.begin(batch)
    run(sink, batch, part(changes(("<", 1, "Ada"), (">", 1, "Bea"))))
    run(sink, proven(2), part(changes(("<", 1, "Bea"), (">", 1, "Cleo"))))
    with pytest.raises(SupersededError, match="holds a later batch than batch 1"):
        late.deliver(batch, begun, part(changes(("<", 1, "Ada"), (">", 1, "Bea"))))
    assert [row["name"] for row in rows_of(sink)] == ["Cleo"]


def test_a_conflict_that_is_gone_when_it_is_looked_at_is_sent_again() -> None:
    cluster = FakeCluster()
    sink = claimed(cluster)
    run(sink, proven(0), ADA)
    tries = count()
    cluster.item_refusal = lambda *_: None if next(tries) else (409, "version_conflict_engine_exception")
    [delivery] = run(sink, proven(1), part(changes(("<", 1, "Ada"), (">", 1, "Bea"))))
    assert (delivery.documents, delivery.repeated) == (1, 0)
    assert [row["name"] for row in rows_of(sink)] == ["Bea"]


def test_a_replay_of_changes_from_before_the_last_load_is_refused() -> None:
    sink = claimed(FakeCluster())
    run(sink, proven(0), ADA)
    run(sink, proven(2, is_load=True), part(changes(("+", 1, "Cleo"))))
    with pytest.raises(SupersededError, match="holds a later batch than batch 1"):
        sink.begin(proven(1, is_replay=True))


def test_of_two_that_take_an_index_over_at_once_one_gets_it() -> None:
    cluster = FakeCluster()
    claimed(cluster)
    second, third = replace(ORIGIN, owner="checkpoint-2"), replace(ORIGIN, owner="checkpoint-3")
    real, writes = cluster.perform_request, count()

    def overtake(method: str, url: str, **given: Any) -> Any:
        if (method, url) == ("PUT", "/people-icefloe/_doc/claim") and next(writes) == 0:
            sink_at(cluster).claim(third, takes_over=True)
        return real(method, url, **given)

    cluster.perform_request = overtake  # type: ignore[method-assign, assignment]
    with pytest.raises(IndexClaimedError, match="checkpoint-3"):
        sink_at(cluster).claim(second, takes_over=True)
    sink_at(cluster).refuse_other_owner(third)
