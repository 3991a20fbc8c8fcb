"""An index of the real search cluster that lacks a shard for a while: the cluster in memory answers alike."""

import urllib.error
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TransientError
from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.opensearch.cluster import IndexGoneError
from servers.opensearch_place import OpenSearchPlace
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from support.servers.opensearch import OpenSearch

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

KEYS = list(range(20))


@pytest.fixture
def place(opensearch: OpenSearch, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenSearchPlace]:
    monkeypatch.setenv(PATIENCE_VARIABLE, "5")
    place = OpenSearchPlace(url=opensearch.url)
    yield place
    place.remove()


def status_of(place: OpenSearchPlace, path: str, body: Any = None) -> int:
    with pytest.raises(urllib.error.HTTPError) as refused:
        place.ask("POST", path, body)
    refused.value.close()
    return refused.value.code


def test_an_index_that_lacks_a_shard_is_not_read_until_it_has_it_again(place: OpenSearchPlace) -> None:
    sink, keys = place.claimed(shards=2), pa.RecordBatch.from_pydict({"id": KEYS})
    run(sink, proven(0), part(changes(*(("+", key, "a") for key in KEYS))))
    with place.without_shard(f"{place.index}-0", 0):
        # A shard without a node has not failed.
        lacking = {"total": 2, "successful": 1, "failed": 0}
        point = f"{place.index}/_search/point_in_time?keep_alive=1m"
        opened = place.ask("POST", point)
        assert opened["_shards"].items() >= lacking.items()
        assert place.ask("GET", f"{place.index}/_count")["_shards"].items() >= lacking.items()
        assert status_of(place, f"{point}&allow_partial_pit_creation=false") == 503
        place.ask("DELETE", "_search/point_in_time", {"pit_id": opened["pit_id"]})
        documents = place.ask("POST", f"{place.index}/_mget", {"ids": [f"{len(str(key))}:{key}" for key in KEYS]})[
            "docs"
        ]
        errors = [each["error"]["type"] for each in documents if "error" in each]
        assert (set(errors), 0 < len(errors) < len(KEYS)) == ({"no_shard_available_action_exception"}, True)
        for given in (None, keys):
            with pytest.raises(TransientError):
                rows_of(sink, keys=given)
    assert [row["id"] for row in rows_of(sink)] == [row["id"] for row in rows_of(sink, keys=keys)] == KEYS
    place.ask("DELETE", f"{place.index}-0")
    with pytest.raises(IndexGoneError):
        rows_of(sink, keys=keys)
