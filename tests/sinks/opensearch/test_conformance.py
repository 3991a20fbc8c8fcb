"""The opensearch sink passes the suite for sinks, over a cluster in memory."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls
from icefloe.testing.staged_history import Row
from sinks.opensearch.sinks import sink_at
from support.sinks.fake_cluster import FakeCluster
from support.sinks.fake_elasticsearch import FakeElasticsearch
from support.sinks.fake_indexes import lost_connection

pytestmark = pytest.mark.slow


class SinkOverMemory(SinkConformance):
    deletes = "soft"
    step = 1

    def new_destination(self) -> FakeCluster:
        return FakeCluster()

    def open_sink(self, destination: FakeCluster, calls: OutwardCalls) -> OpenSearchSink:
        return sink_at(destination, calls, deletes=self.deletes)

    def poison_row(self, _key: int) -> Row | None:
        return {"word": "x" * 2**21}

    @contextmanager
    def refusing(self, destination: FakeCluster) -> Iterator[bool]:
        destination.refusal = lambda _: 429
        yield True
        destination.refusal = lambda _: None

    def places(self, calls: int) -> Iterable[int]:
        return range(calls % self.step, calls, self.step)

    def lost_connection(self) -> Exception:
        return lost_connection()


class TestSoftDeletes(SinkOverMemory):
    step = 7


@pytest.mark.extended
class TestElasticsearch(SinkOverMemory):
    step = 13

    def new_destination(self) -> FakeCluster:
        return FakeElasticsearch()


@pytest.mark.extended
class TestHardDeletes(SinkOverMemory):
    deletes = "hard"
    step = 11
