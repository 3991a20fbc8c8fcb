"""Successes that are none of a search cluster: pages and cut answers are waited for, other services are refused."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink, open_opensearch_sink
from icefloe.storage.location import open_store
from sinks.opensearch.batches import ORIGIN, changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed
from support.fakes.answering_server import answering_server
from support.sinks.fake_cluster import FakeCluster

PAGE = ("text/html; charset=utf-8", b"<html>back soon</html>")
CUT = ("application/json", b'{"_source": {"name": "somebody')
SOON = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def answers() -> list[tuple[str, bytes]]:
    """Type and body of the answers in their order; the last one stays."""
    return []


@pytest.fixture
def sink(answers: list[tuple[str, bytes]]) -> Iterator[OpenSearchSink]:
    def answer(_: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        kind, body = answers.pop(0) if len(answers) > 1 else answers[0]
        return 200, {"Content-Type": kind}, body

    with answering_server(answer) as (url, _):
        sink = open_opensearch_sink({"url": url, "index": "people"}, connection={}, open_store=open_store)
        yield sink
        sink.close()


@pytest.mark.parametrize("answer", [PAGE, CUT])
def test_a_page_or_a_cut_answer_is_no_answer_and_is_not_quoted(
    sink: OpenSearchSink, answers: list[tuple[str, bytes]], answer: tuple[str, bytes]
) -> None:
    answers.append(answer)
    batch = partial(sink.begin, proven(0))
    for call in (sink.check, partial(sink.claim, ORIGIN), sink._claims.progress, batch):
        with pytest.raises(TransientError, match="it answers with a page, as proxies and logins do, or") as caught:
            call()
        assert "somebody" not in caught.value.sentence


@pytest.mark.parametrize(
    ("kind", "body", "fault"),
    [
        ("text/plain", b"OK", "is no JSON object"),
        ("text/plain", b"", "is no JSON object"),
        ("application/json", b"[]", "is no JSON object"),
        ("application/json", b"{}", "has no 'acknowledged'"),
        ("application/json", b'{"status": "ok"}', "has no 'acknowledged'"),
    ],
)
def test_a_place_that_is_no_search_cluster_is_refused_before_the_first_run(
    sink: OpenSearchSink, answers: list[tuple[str, bytes]], kind: str, body: bytes, fault: str
) -> None:
    answers.append((kind, body))
    with pytest.raises(TerminalError, match=f"is no search cluster: its answer to PUT /people-icefloe-probe {fault};"):
        sink.check()
    for call in (partial(sink.claim, ORIGIN, only_looks=True), partial(sink.claim, ORIGIN), sink._claims.progress):
        with pytest.raises(TerminalError, match="is no search cluster: its answer to GET /people-icefloe/_doc/"):
            call()


class EmptyAnswers(FakeCluster):
    """A cluster that answers one path with an empty object."""

    path = "/nothing"

    def perform_request(self, method: str, url: str, *arguments: Any, **named: Any) -> Any:
        return {} if url.endswith(self.path) else super().perform_request(method, url, *arguments, **named)


@pytest.mark.parametrize("path", ["/_doc/claim", "/_doc/progress", "/_mget", "/point_in_time", "/_search", "/_bulk"])
def test_an_answer_without_its_fields_never_ends_as_a_defect(path: str) -> None:
    cluster = EmptyAnswers()
    sink = claimed(cluster)
    run(sink, proven(0), part(changes(("+", 1, "a"))))
    cluster.update_by_query("people")
    cluster.path = path
    calls = {
        "/_doc/claim": lambda: sink.claim(ORIGIN),
        "/_doc/progress": sink._claims.progress,
        "/_mget": lambda: run(sink, proven(1), part(changes(("+", 1, "b")))),
        "/point_in_time": lambda: rows_of(sink),
        "/_search": lambda: sink.purge(before=SOON),
        "/_bulk": lambda: run(sink, proven(1), part(changes(("+", 2, "b")))),
    }
    expected = (TransientError, "its answers are cut") if path == "/_bulk" else (TerminalError, "no search cluster")
    with pytest.raises(expected[0], match=expected[1]):
        calls[path]()
