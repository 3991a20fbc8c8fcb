"""Bulk requests to a cluster that is busy, small, full or choosy."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opensearchpy.exceptions import TransportError

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.key_changes import KeyOperations
from icefloe.sinks.opensearch.delivery import BulkOperations, bulk_operations
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.sinks.sink import PartDelivery
from sinks.opensearch.batches import changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed
from support.sinks.fake_cluster import FakeCluster

PEOPLE = [("+", key, f"name {key}") for key in range(50)]
POISONED = lambda _, document: (400, "mapper_parsing") if document["id"] in {3, 7} else None  # noqa: E731


def loaded(cluster: FakeCluster, **options: Any) -> tuple[OpenSearchSink, PartDelivery]:
    sink = claimed(cluster, **options)
    [delivery] = run(sink, proven(0), part(changes(*PEOPLE)))
    assert [row["id"] for row in rows_of(sink)] == [key for _, key, _ in PEOPLE]
    return sink, delivery


def bulk_requests(cluster: FakeCluster) -> int:
    return sum(each.endswith("/_bulk") for each in cluster.requests)


def test_documents_of_long_rows_are_made_for_a_few_mib_of_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(found: KeyOperations, **options: Any) -> BulkOperations:
        made.append(found.rows.nbytes)
        return bulk_operations(found, **options)

    monkeypatch.setattr("icefloe.sinks.opensearch.delivery.bulk_operations", counted)
    long = [("+", key, "x" * 2**19) for key in range(40)]
    run(claimed(FakeCluster(), bulk_bytes="512KiB"), proven(0), part(changes(*long)))
    assert sum(made) > 20 * 2**20
    assert max(made) <= 8 * 2**20


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_cluster_gets_the_request_again_in_smaller_ones_until_it_is_well(status: int) -> None:
    cluster = FakeCluster()
    sizes: list[int] = []

    def refuse_three(body: bytes) -> int | None:
        sizes.append(len(body))
        return status if len(sizes) <= 3 else None

    cluster.refusal = refuse_three
    sink = claimed(cluster, bulk_bytes="512KiB")
    long = [("+", key, "x" * 20_000) for key in range(60)]
    [delivery] = run(sink, proven(0), part(changes(*long)))
    largest = [512 << 10, 256 << 10, 128 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10]
    assert all(most / 2 < size <= most for size, most in zip(sizes, largest, strict=False))
    assert delivery.retries == 3
    assert (delivery.refused > 0) == (status == 429)
    assert len(cluster.documents("people")) == 60


def test_a_busy_cluster_is_given_up_after_the_patience_and_the_next_try_sends_the_rest(cluster: FakeCluster) -> None:
    cluster.item_refusal = lambda _, document: (429, "rejected") if document["id"] >= 10 else None
    sink = claimed(cluster)
    begun = sink.begin(proven(0))
    with pytest.raises(TransientError, match="gave no good answer for too long"):
        sink.deliver(proven(0), begun, part(changes(*PEOPLE)))
    cluster.item_refusal = lambda *_: None
    assert sink.deliver(proven(0), begun, part(changes(*PEOPLE))).repeated == 10


@pytest.mark.timeout(60)
def test_a_document_that_is_larger_than_any_request_is_refused_by_its_id() -> None:
    sink = claimed(cluster := FakeCluster())
    cluster.most_bytes = 2_000
    rows = [("+", 1, "a"), ("+", 2, "b" * 3_000), ("+", 3, "c")]
    with pytest.raises(TerminalError, match=r"document 1:2 for good \(the document is larger than http\.max"):
        run(sink, proven(0), part(changes(*rows)))
    assert set(cluster.documents("people-0")) == {"1:1", "1:3"}


def test_an_answer_to_fewer_operations_than_were_sent_says_nothing_of_them(cluster: FakeCluster) -> None:
    real, cut = cluster.perform_request, count()

    def cutting(method: str, url: str, **given: Any) -> Any:
        if not url.endswith("/_bulk") or next(cut):
            return real(method, url, **given)
        return {"errors": True, "items": [{"index": {"status": 201}}]}

    cluster.perform_request = cutting  # type: ignore[method-assign]
    _, delivery = loaded(cluster)
    assert (delivery.documents, delivery.retries) == (50, 1)


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        (429, "cluster_block_exception", r"takes no writes .* free space on its disks"),
        (403, "cluster_block_exception", r"takes no writes .* free space on its disks"),
        (400, "index_closed_exception", r"people-0-WRITER is closed; open it with POST INDEX/_open"),
    ],
)
def test_documents_of_a_blocked_or_closed_index_are_no_dead_letters_but_an_error_at_once(
    tmp_path: Path, status: int, error: str, sentence: str
) -> None:
    cluster = FakeCluster()
    cluster.item_refusal = lambda *_: (status, error)
    with pytest.raises(TransientError, match=sentence):
        loaded(cluster, dead_letters={"path": f"file://{tmp_path}"})
    assert bulk_requests(cluster) == 1
    assert list(tmp_path.glob("batch=*")) == []


def test_a_blocked_index_is_no_reason_to_wait_before_a_batch_either(cluster: FakeCluster) -> None:
    sink, _ = loaded(cluster)
    real = cluster.perform_request

    def blocked(method: str, url: str, **given: Any) -> Any:
        if url.endswith("/_mapping"):
            cluster.requests.append("blocked")
            raise TransportError(429, "", {"error": {"type": "cluster_block_exception", "reason": "disk is full"}})
        return real(method, url, **given)

    cluster.perform_request = blocked  # type: ignore[method-assign]
    with pytest.raises(TransientError, match=r"people-0 takes no writes \(disk is full\)"):
        sink.begin(proven(1))
    assert cluster.requests.count("blocked") == 1


def test_a_user_without_rights_is_an_error_at_once(cluster: FakeCluster) -> None:
    cluster.item_refusal = lambda *_: (403, "security_exception")
    with pytest.raises(TerminalError, match="give the user of the sink's connection the rights"):
        loaded(cluster)
    assert bulk_requests(cluster) == 1


def test_dead_letters_are_kept_and_counted_and_a_retry_replaces_them(cluster: FakeCluster, tmp_path) -> None:
    cluster.item_refusal = POISONED
    sink = claimed(cluster, dead_letters={"path": f"file://{tmp_path}", "limit": 2})
    for _ in range(2):
        [delivery] = run(sink, proven(0), part(changes(*PEOPLE)))
        assert (delivery.documents, delivery.dead_letters) == (48, 2)
        lines = (tmp_path / "batch=0" / "part-00000.jsonl").read_text().splitlines()
        assert lines[0].startswith(
            '{"id": "1:3", "version": 0, "operation": "index", "document": {"id": 3, "name": "name 3"}, '
            '"reason": "refused", "refused_at": "20'
        )
        assert len(lines) == 2
    cluster.item_refusal = lambda *_: None
    assert run(sink, proven(0), part(changes(*PEOPLE)))[0].dead_letters == 0
    assert list(tmp_path.glob("batch=0/*")) == []
    assert len(rows_of(sink)) == 50


@pytest.mark.parametrize(("added", "verdict"), [({"more": 1}, "repeated"), ({"_deleted": True}, "of another program")])
def test_a_document_with_our_version_is_ours_if_a_pipeline_added_a_field(added: dict[str, Any], verdict: str) -> None:
    sink = claimed(cluster := FakeCluster())
    begun = sink.begin(proven(0))
    cluster._store(cluster.indexes["people-0"], "1:0", 0, {"id": 0, "name": "name 0", **added})
    rows = part(changes(*PEOPLE[:1]))
    if verdict == "repeated":
        assert sink.deliver(proven(0), begun, rows).repeated == 1
    else:
        with pytest.raises(TerminalError):
            sink.deliver(proven(0), begun, rows)


def test_too_many_dead_letters_fail_the_batch_and_name_the_first(cluster: FakeCluster, tmp_path) -> None:
    cluster.item_refusal = POISONED
    sink = claimed(cluster, dead_letters={"path": f"file://{tmp_path}", "limit": 1})
    begun = sink.begin(proven(0))
    with pytest.raises(TerminalError, match=r"2 documents of batch 0 were refused .*1:3: refused; 1:7"):
        sink.deliver(proven(0), begun, part(changes(*PEOPLE)))
    parts = [part(changes(*PEOPLE[:5])), part(changes(*PEOPLE[5:]), number=1)]
    deliveries = [sink.deliver(proven(0), begun, each) for each in parts]
    with pytest.raises(TerminalError, match="2 documents of batch 0"):
        sink.finish(proven(0), begun, deliveries)


def test_two_rows_of_a_key_in_two_parts_are_an_error_unless_one_is_kept() -> None:
    parts = [part(changes(("+", 1, "a"))), part(changes(("+", 1, "b")), number=1)]
    with pytest.raises(TerminalError, match=r"key of document 1:1 after batch 0, .* then run `icefloe reset`"):
        run(claimed(FakeCluster()), proven(0), *parts)
    sink = claimed(FakeCluster(), duplicates="keep_one")
    for _ in range(2):
        assert [each.details["duplicates"] for each in run(sink, proven(0), *parts)] == [0, 1]
        assert rows_of(sink) == [{"id": 1, "name": "a"}]
