"""Shards that are away for a while: no answer of the others alone is taken for that of the index."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TransientError
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed
from support.sinks.fake_cluster import FakeCluster
from support.sinks.fake_elasticsearch import FakeElasticsearch

LATER = datetime(2024, 1, 1, tzinfo=UTC)


def filled(cluster: FakeCluster) -> OpenSearchSink:
    """A sink with the rows 0, 1, 2 and 3, and the marks of 4 and 5."""
    sink = claimed(cluster)
    run(sink, proven(0), part(changes(*(("+", key, "a") for key in range(6)))))
    run(sink, proven(1), part(changes(("-", 4, "a"), ("-", 5, "a"))))
    return sink


def take_away(cluster: FakeCluster, *ids: str, requests: int) -> None:
    """Let the shard of some documents be away for a number of requests."""
    comes_back = len(cluster.requests) + requests
    cluster.is_away = lambda key: key in ids and len(cluster.requests) <= comes_back


class HalfAnswers(FakeCluster):
    """A cluster that answers one path with a success that lacks a shard, whatever the request allows."""

    path = "/nothing"
    lack: Mapping[str, Any] = MappingProxyType({"_shards": {"total": 2, "successful": 1, "failed": 1}})

    def perform_request(self, method: str, url: str, *arguments: Any, **named: Any) -> Any:
        found = super().perform_request(method, url, *arguments, **named)
        return {**found, **self.lack} if url.endswith(self.path) else found


@pytest.mark.parametrize("kind", [FakeCluster, FakeElasticsearch])
def test_an_index_that_lacks_a_shard_is_neither_read_back_nor_purged(kind: type[FakeCluster]) -> None:
    sink = filled(cluster := kind())
    cluster.is_away = lambda key: key == "1:5"
    purge = partial(sink.purge, before=LATER)
    for task in (partial(rows_of, sink), purge, partial(purge, dry_run=True)):
        with pytest.raises(TransientError, match="gave no good answer for too long"):
            task()
    assert "1:4" in cluster.documents("people")


@pytest.mark.parametrize(
    ("path", "lack", "fault"),
    [
        ("/point_in_time", {"_shards": {"total": 2, "successful": 1, "failed": 0}}, "1 of 2 shards are missing"),
        ("/_search", {"_shards": {"total": 2, "successful": 1, "failed": 1}}, "1 of 2 shards are missing"),
        ("/_search", {"timed_out": True}, "time was over before all shards had answered"),
        ("/_refresh", {"_shards": {"total": 2, "successful": 1, "failed": 1}}, "1 of 2 copies of shards failed"),
        ("/_refresh", {"_shards": {"total": 4, "successful": 2, "failed": 0}}, None),
    ],
)
def test_a_success_without_some_shards_is_no_answer_but_a_copy_without_a_node_is_not_asked(
    path: str, lack: dict[str, Any], fault: str | None
) -> None:
    sink = filled(cluster := HalfAnswers())
    cluster.path, cluster.lack = path, lack
    if fault is None:
        assert len(rows_of(sink)) == 4
        return
    with pytest.raises(TransientError, match=fault):
        rows_of(sink)


def test_a_batch_is_not_shown_before_all_shards_are_refreshed() -> None:
    sink = filled(cluster := HalfAnswers())
    cluster.path = "/_refresh"
    with pytest.raises(TransientError):
        run(sink, proven(2), part(changes(("+", 7, "a"))))


def test_conflicts_of_documents_whose_shard_is_moving_are_looked_at_again() -> None:
    """So a batch that another try has delivered is not taken for one that another program got in the way of."""
    sink = filled(cluster := FakeCluster())
    again = part(changes(("-", 4, "a"), ("-", 5, "a")))
    begun = sink.begin(proven(1))
    take_away(cluster, "1:4", requests=3)
    assert sink.deliver(proven(1), begun, again).repeated == 2
    cluster.is_away = lambda key: key == "1:4"
    with pytest.raises(TransientError, match="no node has it"):
        sink.deliver(proven(1), begun, again)


def test_rows_that_are_read_back_by_key_are_not_missing_because_their_shard_is_away() -> None:
    sink = filled(cluster := FakeCluster())
    keys = pa.RecordBatch.from_pydict({"id": [1, 2]})
    take_away(cluster, "1:2", requests=2)
    assert [row["id"] for row in rows_of(sink, keys=keys)] == [1, 2]
    cluster.is_away = lambda key: key == "1:2"
    with pytest.raises(TransientError):
        rows_of(sink, keys=keys)
