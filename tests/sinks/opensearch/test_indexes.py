"""Indexes behind a name: made, shown, replaced, and refused if they do not fit."""

from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.opensearch.claims import BegunBatch
from icefloe.sinks.opensearch.cluster import IndexGoneError
from icefloe.sinks.opensearch.indexes import Indexes
from icefloe.sinks.sink import SupersededError
from sinks.opensearch.batches import ORIGIN, change_rows, changes, part, proven, rows_of, run
from sinks.opensearch.sinks import claimed, sink_at
from support.sinks.fake_cluster import FakeCluster

ADA = part(changes(("+", 1, "Ada")))


def made_by_user(cluster: FakeCluster, *documents: str, name: str = "people") -> None:
    cluster.perform_request("PUT", f"/{name}", body=b'{"mappings": {"properties": {"name": {"type": "keyword"}}}}')
    for number, each in enumerate(documents):
        cluster.perform_request("PUT", f"/{name}/_doc/{number}", body=each.encode())


@pytest.mark.parametrize("deletes", ["soft", "hard"])
def test_a_late_write_into_a_removed_index_makes_no_index(cluster: FakeCluster, deletes: str) -> None:
    sink = claimed(cluster, deletes=deletes)
    run(sink, proven(0), ADA)
    begun = sink.begin(proven(1))
    run(sink, proven(5, is_load=True), ADA)
    with pytest.raises(SupersededError):
        sink.deliver(proven(1), begun, part(changes(("-", 1, "Ada"))))
    assert set(cluster.indexes) == {"people-5", "people-icefloe"}


def test_readers_see_the_old_load_or_the_new_one_at_each_request_of_a_load() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    old, seen, real = cluster.documents("people"), list[Any](), cluster.perform_request

    def watched(method: str, url: str, **given: Any) -> Any:
        answer = real(method, url, **given)
        seen.append(cluster.documents("people"))
        return answer

    cluster.perform_request = watched  # type: ignore[method-assign]
    run(sink, proven(5, is_load=True), part(changes(("+", 3, "Cy"))))
    assert [each for each, _ in groupby(seen)] == [old, {"1:3": {"id": 3, "name": "Cy"}}]


def test_an_index_whose_name_looks_like_a_load_of_another_sink_stays(cluster: FakeCluster) -> None:
    other = claimed(cluster, index="people-3")
    run(other, proven(0), ADA)
    run(claimed(cluster), proven(5, is_load=True), ADA)
    assert rows_of(other) == [{"id": 1, "name": "Ada"}]


def test_an_index_that_gets_the_name_after_the_claim_stops_a_load_before_it_is_written(cluster: FakeCluster) -> None:
    sink = claimed(cluster)
    made_by_user(cluster, "{}")
    with pytest.raises(TerminalError, match="is an index that icefloe did not make; remove it"):
        run(sink, proven(0), ADA)
    assert "people-0" not in cluster.indexes


def test_documents_and_names_of_others_are_refused_before_anything_is_written(cluster: FakeCluster) -> None:
    made_by_user(cluster, "{}")
    sink = sink_at(cluster)
    for call in (partial(sink.claim, only_looks=True), sink.claim):
        with pytest.raises(TerminalError, match="icefloe did not make index people,"):
            call(ORIGIN)
    assert set(cluster.indexes) == {"people"}
    run(sink := claimed(cluster, index="cities"), proven(0), ADA)
    made_by_user(cluster, "{}", name="cities-5")
    with pytest.raises(TerminalError, match="icefloe did not make index cities-5,"):
        sink.begin(proven(5, is_load=True))
    cluster.perform_request("PUT", "/other", body=b'{"aliases": {"towns": {}}}')
    with pytest.raises(TerminalError, match="index other"):
        claimed(cluster, index="towns")


def test_other_keys_need_a_new_index() -> None:
    sink = claimed(FakeCluster())
    run(sink, proven(0), ADA)
    with pytest.raises(TerminalError, match=r"have ids of id \(integer\), and this batch has name \(string\)"):
        sink.begin(proven(1, identity=("name",)))


def test_a_column_of_another_type_needs_a_new_index_and_a_new_column_does_not() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    wider = pa.schema([("id", pa.int64()), ("name", pa.large_string()), ("age", pa.int32())])
    rows = pa.RecordBatch.from_pylist([{"id": 2, "name": "Bob", "age": 7}], schema=wider)
    run(sink, proven(1, wider), part(change_rows(["INSERT"], rows)))
    assert cluster.indexes["people-0"].mappings["properties"]["age"] == {"type": "long"}
    assert rows_of(sink, wider)[0] == {"id": 1, "name": "Ada", "age": None}
    other = pa.schema([("id", pa.int64()), ("name", pa.struct([("first", pa.string())]))])
    with pytest.raises(TerminalError, match="the fields of index people-0 do not fit the table's columns: "):
        sink.begin(proven(2, other))


@pytest.mark.parametrize("moment", ["between two batches", "in a batch", "in a load"])
def test_an_index_that_somebody_removed_is_gone_and_the_next_load_brings_all_rows(moment: str) -> None:
    """Recorded parts are not sent again, so an index made anew would lack them."""
    cluster = FakeCluster()
    sink, batch = claimed(cluster), proven(0 if moment == "in a load" else 1)
    if moment != "in a load":
        run(sink, proven(0), ADA)
    if moment != "between two batches":
        begun = sink.begin(batch)
        sink.deliver(batch, begun, ADA)
    del cluster.indexes["people-0"]
    gone = f"was removed while batch {batch.batch_number} was written to it; run `icefloe reset people`"
    with pytest.raises(IndexGoneError, match=gone):
        sink.begin(batch)
    if moment != "between two batches":
        with pytest.raises(IndexGoneError, match=gone):
            sink.deliver(batch, begun, ADA)
    assert set(cluster.indexes) == {"people-icefloe"}
    run(sink, proven(5, is_load=True), ADA)
    assert rows_of(sink) == [{"id": 1, "name": "Ada"}]


def test_a_replay_of_a_load_makes_an_index_again_that_somebody_removed() -> None:
    """It sends all parts, since no part of a replay is recorded."""
    sink = claimed(cluster := FakeCluster())
    load = proven(0, is_replay=True)
    run(sink, load, ADA)
    del cluster.indexes["people-0"]
    run(sink, load, ADA)
    assert rows_of(sink) == [{"id": 1, "name": "Ada"}]


def test_a_first_batch_without_a_load_that_was_killed_before_its_index_was_made_makes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cursor of a new pipeline was set, which takes the place of a load."""
    sink, batch = claimed(FakeCluster()), proven(1)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Indexes, "prepare", killed)
        with pytest.raises(KeyboardInterrupt):
            sink.begin(batch)
    run(sink, batch, part(changes(("+", 1, "Ada"))))
    assert rows_of(sink) == [{"id": 1, "name": "Ada"}]


def test_a_lost_claim_is_an_error() -> None:
    sink = claimed(cluster := FakeCluster())
    del cluster.indexes["people-icefloe"]
    with pytest.raises(TerminalError, match="nobody has claimed"):
        sink.begin(proven(0))


def test_a_name_that_was_moved_meanwhile_is_looked_up_again() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    sink.begin(proven(5, is_load=True))
    sink.begin(proven(7, is_load=True))
    real = cluster.perform_request

    def overtaken(method: str, url: str, **given: Any) -> Any:
        if url == "/_aliases":
            cluster.perform_request = real  # type: ignore[method-assign]
            sink._indexes.show("people-7")
        return real(method, url, **given)

    cluster.perform_request = overtaken  # type: ignore[method-assign]
    with pytest.raises(IndexGoneError):
        sink._indexes.show("people-5")
    assert {name for name, each in cluster.indexes.items() if "people" in each.aliases} == {"people-7"}


def test_a_batch_does_not_begin_after_a_later_one_that_begins_at_the_same_moment() -> None:
    claims = claimed(FakeCluster())._claims
    assert claims.begin(BegunBatch(version=2, target="people-0", end="snapshot 7"))
    assert claims.begin(BegunBatch(version=2, target="people-0", end="snapshot 7"))
    assert not claims.begin(BegunBatch(version=1, target="people-1", end="snapshot 6"))
    assert claims.progress() == BegunBatch(version=2, target="people-0", end="snapshot 7")
