"""A real search cluster that refuses for now: too busy, too large, blocked, closed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icefloe.errors import TransientError
from servers.conftest import or_skip
from servers.opensearch_place import OpenSearchPlace
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from support.servers.opensearch import OpenSearch

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(900)]

WRITERS = 16


@pytest.fixture
def place(opensearch: OpenSearch) -> Iterator[OpenSearchPlace]:
    place = OpenSearchPlace(url=opensearch.url)
    yield place
    place.remove()


def test_operations_that_a_full_queue_refuses_arrive_later(tmp_path: Path) -> None:
    settings = {"thread_pool.write.size": "1", "thread_pool.write.queue_size": "1"}
    with or_skip(OpenSearch(folder=tmp_path / "busy", settings=settings)) as server:
        place = OpenSearchPlace(url=server.url)
        sink = place.claimed(bulk_bytes=2_000)
        begun, refused, rounds = sink.begin(proven(0)), 0, 0
        while not refused:
            rounds += 1
            parts = [
                part(changes(*(("+", 100 * number + key, "x" * 50) for key in range(100))), number=number)
                for number in range(WRITERS * (rounds - 1), WRITERS * rounds)
            ]
            with ThreadPoolExecutor(WRITERS) as pool:
                delivered = list(
                    pool.map(lambda each: place.sink(bulk_bytes=2_000).deliver(proven(0), begun, each), parts)
                )
            refused = sum(each.refused for each in delivered)
            assert sum(each.documents for each in delivered) == 100 * WRITERS
        sink.finish(proven(0), begun, delivered)
        assert len(rows_of(sink)) == 100 * WRITERS * rounds


def test_requests_above_the_cluster_s_limit_are_divided(place: OpenSearchPlace) -> None:
    sink = place.claimed(bulk_bytes="5MiB")
    [delivery] = run(sink, proven(0), part(changes(*(("+", key, "x" * 300_000) for key in range(12)))))
    assert (delivery.documents, delivery.refused, delivery.retries > 0) == (12, 0, True)
    assert len(place.found()) == 12


@pytest.mark.parametrize("block", ["read_only_allow_delete", "write", "read_only", "closed"])
def test_an_index_that_takes_no_writes_in_the_middle_gets_the_rest_later(
    place: OpenSearchPlace, tmp_path: Path, block: str
) -> None:
    sink, index = place.claimed(dead_letters={"path": f"file://{tmp_path}"}), f"{place.index}-0"
    begun = sink.begin(proven(0))
    sink.deliver(proven(0), begun, part(changes(("+", 1, "a"))))
    if block == "closed":
        place.ask("POST", f"{index}/_close")
    else:
        place.set(index, **{f"blocks__{block}": True})
    rest = part(changes(("+", 1, "a"), ("+", 2, "b")))
    with pytest.raises(TransientError, match="is closed; open it" if block == "closed" else "takes no writes"):
        sink.deliver(proven(0), begun, rest)
    if block == "closed":
        place.ask("POST", f"{index}/_open?wait_for_active_shards=1")
    else:
        place.set(index, **{f"blocks__{block}": None})
    delivery = sink.deliver(proven(0), begun, rest)
    assert (delivery.documents, delivery.repeated, delivery.dead_letters) == (2, 1, 0)
    sink.finish(proven(0), begun, [delivery])
    assert set(place.found()) == {"1:1", "1:2"}
