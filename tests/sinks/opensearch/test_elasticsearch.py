"""The sink reads back and purges over Elasticsearch's own requests too."""

from datetime import UTC, datetime
from typing import Any

import pytest
from opensearchpy.exceptions import AuthorizationException

from icefloe.errors import TransientError
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed
from support.sinks.fake_cluster import FakeCluster
from support.sinks.fake_elasticsearch import FakeElasticsearch


class SilentOfItself(FakeCluster):
    """An OpenSearch whose user may not ask for the cluster's version."""

    def perform_request(self, method: str, url: str, *arguments: Any, **named: Any) -> Any:
        if url == "/":
            raise AuthorizationException(403, "security_exception", {})
        return super().perform_request(method, url, *arguments, **named)


@pytest.mark.parametrize("cluster", [FakeElasticsearch(), SilentOfItself(), FakeCluster()], ids=lambda each: type(each))
def test_rows_are_read_back_page_by_page_as_of_one_moment(cluster: FakeCluster) -> None:
    sink = claimed(cluster)
    run(sink, proven(0), part(changes(*(("+", key, "a") for key in range(7)))))
    run(sink, proven(1), part(changes(("-", 3, "a"))))
    pages = sink.read_back(proven(0).schema)
    first = next(pages)
    run(sink, proven(2), part(changes(("-", 6, "a"))))
    rows = [*first.to_pylist(), *(row for page in pages for row in page.to_pylist())]
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 4, 5, 6]
    assert [row["id"] for row in rows_of(sink)] == [0, 1, 2, 4, 5]
    assert sink.purge(before=datetime(2024, 1, 1, tzinfo=UTC)) == 2
    pages = sink.read_back(proven(0).schema)
    next(pages)
    run(sink, proven(3, is_load=True), part(changes(("+", 1, "anew"))))
    with pytest.raises(TransientError, match=r"a load has replaced the index, or a node .* went away; run again"):
        next(pages)
    assert cluster._points == {}
