"""Indexes behind a name: made, shown, replaced, and refused if they do not fit."""

import copy
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.opensearch.batch_index import BegunBatch
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
def test_a_late_write_into_a_removed_index_makes_no_index(deletes: str) -> None:
    cluster = FakeCluster()
    sink = claimed(cluster, deletes=deletes)
    run(sink, proven(0), ADA)
    begun = sink.begin(proven(1))
    run(sink, proven(5, is_load=True), ADA)
    with pytest.raises(SupersededError):
        sink.deliver(proven(1), begun, part(changes(("-", 1, "Ada"))))
    assert set(cluster.indexes) == {"people-5", "people-icefloe"}


def test_an_empty_index_of_a_user_is_used_as_it_is_and_never_replaced() -> None:
    cluster = FakeCluster()
    made_by_user(cluster)
    sink = claimed(cluster)
    run(sink, proven(0), ADA)
    run(sink, proven(0), ADA)
    assert rows_of(sink) == [{"id": 1, "name": "Ada"}]
    assert cluster.indexes["people"].mappings["properties"]["name"] == {"type": "keyword"}
    assert set(cluster.indexes) == {"people", "people-icefloe"}
    with pytest.raises(TerminalError, match="is an index that you made, so a new load cannot replace it"):
        sink.begin(proven(5, is_load=True))


def test_an_index_with_documents_of_others_is_refused_before_anything_is_claimed() -> None:
    cluster = FakeCluster()
    made_by_user(cluster, "{}")
    sink = sink_at(cluster)
    for call in (sink.refuse_other_owner, sink.claim):
        with pytest.raises(TerminalError, match=r"holds documents that icefloe did not write \(index people\)"):
            call(ORIGIN)
    assert set(cluster.indexes) == {"people"}


def test_an_index_whose_name_looks_like_a_load_of_another_sink_stays() -> None:
    cluster = FakeCluster()
    made_by_user(cluster, name="people-3")
    other = claimed(cluster, index="people-3")
    run(other, proven(0), ADA)
    sink = claimed(cluster)
    run(sink, proven(2, is_load=True), ADA)
    with pytest.raises(TerminalError, match=r"people-3 is of another sink, whose sink\.index is people-3;"):
        sink.begin(proven(3, is_load=True))
    run(sink, proven(5, is_load=True), ADA)
    assert rows_of(other) == [{"id": 1, "name": "Ada"}]
    assert "people-2" not in cluster.indexes


def test_the_index_of_a_load_of_another_sink_is_refused_even_if_it_is_empty() -> None:
    cluster = FakeCluster()
    run(claimed(cluster), proven(7, is_load=True))
    other = sink_at(cluster, index="people-7")
    for call in (other.refuse_other_owner, other.claim):
        with pytest.raises(TerminalError, match=r"people-7 is of another sink, whose sink\.index is people;"):
            call(ORIGIN)


def test_a_load_does_not_write_into_documents_of_others() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    made_by_user(cluster, "{}", name="people-5")
    with pytest.raises(TerminalError, match=r"holds documents that icefloe did not write \(index people-5\)"):
        sink.begin(proven(5, is_load=True))


def test_an_alias_of_others_is_refused() -> None:
    cluster = FakeCluster()
    cluster.perform_request("PUT", "/other", body=b'{"aliases": {"people": {}}}')
    with pytest.raises(TerminalError, match="index other"):
        claimed(cluster)


def test_hard_deletes_need_an_index_that_remembers_them() -> None:
    cluster = FakeCluster()
    made_by_user(cluster)
    with pytest.raises(TerminalError, match=r"index\.gc_deletes of index people is 60s, so a repeated write"):
        claimed(cluster, deletes="hard").begin(proven(0))
    cluster.indexes["people"].settings["gc_deletes"] = "1h"
    claimed(cluster, deletes="hard").begin(proven(0))
    other = FakeCluster()
    run(claimed(other, deletes="hard"), proven(0), ADA)
    assert other.indexes["people-0"].settings["gc_deletes"] == "24h"


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


def test_an_index_that_somebody_removed_is_said_to_be_gone() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    begun = sink.begin(proven(1))
    del cluster.indexes["people-0"]
    for call in (lambda: sink.begin(proven(1)), lambda: sink.deliver(proven(1), begun, ADA)):
        with pytest.raises(
            IndexGoneError, match="was removed while batch 1 was written to it; run `icefloe reset people`"
        ):
            call()
    assert set(cluster.indexes) == {"people-icefloe"}


def test_an_index_that_is_removed_between_two_batches_is_not_made_again() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    del cluster.indexes["people-0"]
    with pytest.raises(IndexGoneError, match="was removed while batch 1 was written to it; run `icefloe reset people`"):
        sink.begin(proven(1))
    assert set(cluster.indexes) == {"people-icefloe"}


def test_an_index_that_is_removed_in_the_middle_of_its_load_is_not_made_again() -> None:
    """Parts that are recorded as delivered are not sent again, so the next try would show an index without them."""
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    load = proven(5, is_load=True)
    sink.deliver(load, sink.begin(load), ADA)
    sink.begin(load)
    del cluster.indexes["people-5"]
    with pytest.raises(IndexGoneError, match="was removed while batch 5 was written to it; run `icefloe reset people`"):
        sink.begin(load)
    assert set(cluster.indexes) == {"people-0", "people-icefloe"}
    run(sink, proven(7, is_load=True), ADA)
    assert rows_of(sink) == [{"id": 1, "name": "Ada"}]


def test_an_index_that_a_user_made_again_in_the_middle_of_its_load_is_loaded_by_the_next_one() -> None:
    cluster = FakeCluster()
    made_by_user(cluster)
    sink = claimed(cluster)
    sink.deliver(proven(0), sink.begin(proven(0)), ADA)
    del cluster.indexes["people"]
    made_by_user(cluster)
    with pytest.raises(IndexGoneError, match="was removed while batch 0 was written to it; run `icefloe reset people`"):
        sink.begin(proven(0))
    run(sink, proven(5, is_load=True), ADA)
    assert rows_of(sink) == [{"id": 1, "name": "Ada"}]


def test_an_index_that_a_user_made_again_between_two_batches_is_not_gone_on_with() -> None:
    cluster = FakeCluster()
    made_by_user(cluster)
    sink = claimed(cluster)
    run(sink, proven(0), ADA)
    del cluster.indexes["people"]
    made_by_user(cluster)
    with pytest.raises(IndexGoneError, match="was removed while batch 1 was written to it; run `icefloe reset people`"):
        sink.begin(proven(1))


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


def test_soft_deletes_are_filtered_out_by_the_name() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    run(sink, proven(1), part(changes(("-", 1, "Ada"))))
    assert cluster.indexes["people-0"].aliases["people"] == {
        "filter": {"bool": {"must_not": [{"term": {"_deleted": True}}]}}
    }
    [marker] = cluster.documents("people").values()
    assert marker == {"id": 1, "_deleted": True, "_deleted_at": "2023-11-14T22:13:20.000000Z"}


def test_a_name_that_a_later_load_has_is_never_moved_back() -> None:
    sink = claimed(cluster := FakeCluster())
    run(sink, proven(0), ADA)
    old = copy.deepcopy(cluster.indexes["people-0"])
    run(sink, proven(5, is_load=True), ADA)
    cluster.indexes["people-0"] = old
    del old.aliases["people"]
    with pytest.raises(IndexGoneError):
        sink._indexes.show("people-0")
    assert "people" in cluster.indexes["people-5"].aliases


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

    cluster.perform_request = overtaken  # type: ignore[method-assign, assignment]
    with pytest.raises(IndexGoneError):
        sink._indexes.show("people-5")
    assert {name for name, each in cluster.indexes.items() if "people" in each.aliases} == {"people-7"}


def test_a_batch_does_not_begin_after_a_later_one_that_begins_at_the_same_moment() -> None:
    claims = claimed(FakeCluster())._claims
    assert claims.begin(BegunBatch(version=2, target="people-0"))
    assert claims.begin(BegunBatch(version=2, target="people-0"))
    assert not claims.begin(BegunBatch(version=1, target="people-1"))
    assert claims.progress() == BegunBatch(version=2, target="people-0")
