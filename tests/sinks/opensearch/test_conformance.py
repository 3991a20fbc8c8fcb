"""The opensearch sink passes the suite for sinks, over a cluster in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls
from sinks.opensearch.sinks import SuiteOfIndexes, sink_at
from support.sinks.fake_cluster import FakeCluster
from support.sinks.fake_elasticsearch import FakeElasticsearch

pytestmark = pytest.mark.slow


class SinkOverMemory(SuiteOfIndexes, SinkConformance):
    def new_destination(self) -> FakeCluster:
        return FakeCluster()

    def open_sink(self, destination: FakeCluster, calls: OutwardCalls) -> OpenSearchSink:
        return sink_at(destination, calls, deletes=self.deletes)

    @contextmanager
    def refusing(self, destination: FakeCluster) -> Iterator[bool]:
        destination.refusal = lambda _: 429
        yield True
        destination.refusal = lambda _: None


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
