"""The suite for sinks of other packages, over the real search cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo.servers.opensearch import OpenSearch
from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.testing.arrival_cases import ArrivalCases
from icefloe.testing.conformance import InterruptionCases, SinkConformance
from icefloe.testing.processes import OutwardCalls
from servers.opensearch_place import OpenSearchPlace
from sinks.opensearch.sinks import SuiteOfIndexes

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(1800)]


class SinkOverCluster(SuiteOfIndexes):
    step = 13

    @pytest.fixture(autouse=True)
    def _cluster(self, opensearch: OpenSearch, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.server, self.monkeypatch = opensearch, monkeypatch
        self.places_used: list[OpenSearchPlace] = []
        monkeypatch.setenv(PATIENCE_VARIABLE, "30")
        yield
        for place in self.places_used:
            place.remove()

    def new_destination(self) -> OpenSearchPlace:
        self.places_used.append(OpenSearchPlace(url=self.server.url))
        return self.places_used[-1]

    def open_sink(self, destination: OpenSearchPlace, calls: OutwardCalls) -> OpenSearchSink:
        sink = destination.sink(deletes=self.deletes)
        client = sink._cluster._client
        client.transport = calls.watch(client.transport, only=("perform_request",))
        return sink

    @contextmanager
    def refusing(self, destination: OpenSearchPlace) -> Iterator[bool]:
        with self.monkeypatch.context() as patch, destination.broken_circuit():
            patch.setenv(PATIENCE_VARIABLE, "2")
            yield True


class TestSoftDeletesOverCluster(SinkOverCluster, SinkConformance):
    pass


class TestHardDeletesOverCluster(SinkOverCluster, ArrivalCases, InterruptionCases):
    """The cases in which rows are deleted; the others are as with soft deletes."""

    deletes = "hard"
    step = 29
