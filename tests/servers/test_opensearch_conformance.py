"""The suite for sinks of other packages, over the real search cluster."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from opensearchpy.exceptions import ConnectionError as LostConnectionError

from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.testing.arrival_cases import ArrivalCases
from icefloe.testing.conformance import InterruptionCases, SinkConformance
from icefloe.testing.processes import OutwardCalls
from icefloe.testing.sink_under_test import SinkUnderTest
from icefloe.testing.staged_history import Row
from servers.opensearch_place import OpenSearchPlace
from support.servers.opensearch import OpenSearch

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(1800)]


class SinkOverCluster(SinkUnderTest):
    deletes = "soft"
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

    def poison_row(self, _key: int) -> Row | None:
        return {"word": "x" * 2**21}

    @contextmanager
    def refusing(self, destination: OpenSearchPlace) -> Iterator[bool]:
        with self.monkeypatch.context() as patch, destination.broken_circuit():
            patch.setenv(PATIENCE_VARIABLE, "2")
            yield True

    def places(self, calls: int) -> Iterable[int]:
        return range(calls // 2 % self.step, calls, self.step)

    def lost_connection(self) -> Exception:
        return LostConnectionError("N/A", "the connection broke", OSError())


class TestSoftDeletesOverCluster(SinkOverCluster, SinkConformance):
    pass


class TestHardDeletesOverCluster(SinkOverCluster, ArrivalCases, InterruptionCases):
    """The cases in which rows are deleted; the others are as with soft deletes."""

    deletes = "hard"
    step = 29
