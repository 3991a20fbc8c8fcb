"""Shards that are away for a while: no answer of the others alone is taken for that of the index."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TransientError
from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.opensearch import cluster as cluster_module
from icefloe.sinks.opensearch.cluster import IndexGoneError
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed
from support.sinks.fake_cluster import FakeCluster
from support.sinks.fake_elasticsearch import FakeElasticsearch

LATER = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.3")
    monkeypatch.setattr(cluster_module, "_FIRST_PAUSE_SECONDS", 0.001)


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
@pytest.mark.parametrize("requests", [3, 4])
def test_rows_of_a_shard_that_comes_back_are_read(kind: type[FakeCluster], requests: int) -> None:
    sink = filled(cluster := kind())
    take_away(cluster, "1:2", requests=requests)
    assert [row["id"] for row in rows_of(sink)] == [0, 1, 2, 3]


def test_marks_of_a_shard_that_comes_back_are_purged() -> None:
    sink = filled(cluster := FakeCluster())
    take_away(cluster, "1:5", requests=6)
    assert sink.purge(before=LATER) == 2


@pytest.mark.parametrize("kind", [FakeCluster, FakeElasticsearch])
def test_an_index_that_lacks_a_shard_is_neither_read_back_nor_purged(kind: type[FakeCluster]) -> None:
    sink = filled(cluster := kind())
    cluster.is_away = lambda key: key == "1:5"
    purge = partial(sink.purge, before=LATER)
    for task in (partial(rows_of, sink), purge, partial(purge, dry_run=True)):
        with pytest.raises(TransientError, match="gave no good answer for too long"):
            task()
    assert "1:4" in cluster.documents("people")


@pytest.mark.parametrize("path", ["/point_in_time", "/_search"])
@pytest.mark.parametrize("failed", [0, 1])
def test_a_success_without_some_of_the_shards_is_no_answer(path: str, failed: int) -> None:
    """A shard without a node is missing, and has not failed."""
    sink = filled(cluster := HalfAnswers())
    cluster.path, cluster.lack = path, {"_shards": {"total": 2, "successful": 1, "failed": failed}}
    with pytest.raises(TransientError, match="1 of 2 shards are missing"):
        rows_of(sink)


def test_a_refresh_that_failed_at_a_copy_is_no_answer_and_copies_without_a_node_are_not_asked() -> None:
    sink = filled(cluster := HalfAnswers())
    cluster.path = "/_refresh"
    with pytest.raises(TransientError, match="1 of 2 copies of shards failed"):
        rows_of(sink)
    cluster.lack = {"_shards": {"total": 4, "successful": 2, "failed": 0}}
    assert len(rows_of(sink)) == 4


def test_a_page_that_was_cut_by_a_timeout_is_no_answer() -> None:
    sink = filled(cluster := HalfAnswers())
    cluster.path, cluster.lack = "/_search", {"timed_out": True}
    with pytest.raises(TransientError, match="time was over before all shards had answered"):
        rows_of(sink)


def test_a_batch_is_not_shown_before_all_shards_are_refreshed() -> None:
    sink = filled(cluster := HalfAnswers())
    cluster.path = "/_refresh"
    with pytest.raises(TransientError):
        run(sink, proven(2), part(changes(("+", 7, "a"))))


def test_an_index_of_somebody_else_is_not_empty_because_a_shard_is_away() -> None:
    cluster = FakeCluster()
    cluster.perform_request("PUT", "/people")
    cluster.perform_request("PUT", "/people/_doc/theirs", body="{}")
    cluster.is_away = lambda _: True
    with pytest.raises(TransientError, match="1 of 2 shards are missing"):
        claimed(cluster)


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


def test_an_index_that_is_gone_is_no_index_without_those_documents() -> None:
    sink = filled(cluster := FakeCluster())
    del cluster.indexes["people-0"]
    with pytest.raises(IndexGoneError, match=r"the index behind .*people is gone"):
        rows_of(sink, keys=pa.RecordBatch.from_pydict({"id": [1, 2]}))
