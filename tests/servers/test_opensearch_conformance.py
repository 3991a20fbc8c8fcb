"""The suite for sinks of other packages, over the real search cluster."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opensearchpy.exceptions import ConnectionError as LostConnectionError

from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.testing.arrival_cases import ArrivalCases
from icefloe.testing.conformance import SinkConformance
from icefloe.testing.interruption_cases import InterruptionCases
from icefloe.testing.processes import OutwardCalls
from icefloe.testing.sink_under_test import SinkUnderTest
from icefloe.testing.staged_history import Row
from servers.one_history import OneHistory
from servers.opensearch_place import OpenSearchPlace
from support.servers.opensearch import OpenSearch

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(1800)]


class CountedRefusals:
    """Stands in for the client's transport, and mends the cluster after so many requests with a body."""

    def __init__(self, transport: Any, suite: "SinkOverCluster") -> None:
        self._transport, self._suite = transport, suite

    def perform_request(self, method: str, url: str, **given: Any) -> Any:
        if given.get("body") and self._suite.refusals is not None:
            self._suite.refusals -= 1
            if self._suite.refusals < 0:
                self._suite.place.mend_circuit()
        return self._transport.perform_request(method, url, **given)

    def close(self) -> None:
        self._transport.close()


class SinkOverCluster(SinkUnderTest):
    deletes = "soft"
    step = 13

    @pytest.fixture(autouse=True)
    def _cluster(self, opensearch: OpenSearch, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.server, self.monkeypatch = opensearch, monkeypatch
        self.places_used: list[OpenSearchPlace] = []
        self.refusals: int | None = None
        monkeypatch.setenv(PATIENCE_VARIABLE, "30")
        yield
        for place in self.places_used:
            place.remove()

    @property
    def place(self) -> OpenSearchPlace:
        return self.places_used[-1]

    def new_destination(self) -> OpenSearchPlace:
        self.places_used.append(OpenSearchPlace(url=self.server.url))
        return self.place

    def open_sink(self, destination: OpenSearchPlace, calls: OutwardCalls) -> OpenSearchSink:
        sink = destination.sink(deletes=self.deletes)
        client = sink._cluster._client
        client.transport = CountedRefusals(calls.watch(client.transport, only=("perform_request",)), self)
        return sink

    def foreign_write(self, destination: OpenSearchPlace, number: int) -> bool:
        name = max(each for each in destination.indexes() if not each.endswith("icefloe"))
        destination.ask("PUT", f"{name}/_doc/1:{700 + number}", {"id": 700 + number})
        return True

    def poison_row(self, _key: int) -> Row | None:
        return {"word": "x" * 2**21}

    @contextmanager
    def refusing(self, destination: OpenSearchPlace, times: int | None) -> Iterator[bool]:
        with self.monkeypatch.context() as patch, destination.broken_circuit():
            if times is None:
                patch.setenv(PATIENCE_VARIABLE, "2")
            self.refusals = times
            yield True
            self.refusals = None

    def places(self, calls: int) -> Iterable[int]:
        return range(calls // 2 % self.step, calls, self.step)

    def lost_connection(self) -> Exception:
        return LostConnectionError("N/A", "the connection broke", OSError())


class TestSoftDeletesOverCluster(SinkOverCluster, OneHistory, SinkConformance):
    pass


class TestHardDeletesOverCluster(SinkOverCluster, ArrivalCases, InterruptionCases, OneHistory):
    """The cases in which rows are deleted; the others are as with soft deletes."""

    deletes = "hard"
    step = 29
