"""The opensearch sink on a real cluster."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.sink import SupersededError
from servers.opensearch_place import OpenSearchPlace, opensearch_place
from sinks.opensearch.batches import PEOPLE, change_rows, changes, part, proven, rows_of, run

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

WORDS = pa.schema([("id", pa.large_string()), ("name", pa.large_string())])
POISON = "x" * 2**21


place = pytest.fixture(opensearch_place)


def test_keys_of_every_kind_of_character_come_back(place: OpenSearchPlace) -> None:
    keys = ["", "\x00", "\x01\x1f\x7f", "\n\r\t", "\u2028", "😀", "a/b?c#d%2F", "..", '"\\', " ", "a" * 508, "é" * 300]
    rows = pa.RecordBatch.from_pylist([{"id": key, "name": key} for key in keys], schema=WORDS)
    sink = place.claimed(deletes="hard")
    run(sink, proven(0, WORDS), part(change_rows(["INSERT"] * len(keys), rows)))
    assert [row["id"] for row in rows_of(sink, WORDS)] == sorted(keys)
    assert len(rows_of(sink, WORDS, keys=rows.select(["id"]))) == len(keys)
    run(sink, proven(1, WORDS), part(change_rows(["DELETE"] * len(keys), rows)))
    assert rows_of(sink, WORDS) == []


@pytest.mark.parametrize("duplicates", ["fail", "keep_one"])
def test_an_update_by_query_is_noticed_while_a_batch_writes(place: OpenSearchPlace, duplicates: str) -> None:
    sink = place.claimed(duplicates=duplicates)
    run(sink, proven(0), part(changes(("+", 1, "Ada"), ("+", 2, "Bob"))))
    place.ask("POST", f"{place.index}/_update_by_query?refresh=true", {"query": {"term": {"id": 1}}})
    with pytest.raises(TerminalError, match="another program wrote or deleted document 1:1"):
        run(sink, proven(1, counts={"delete": 1}), part(changes(("-", 1, "Ada"))))


def test_a_replay_that_comes_when_deletions_are_forgotten_is_harmless(place: OpenSearchPlace) -> None:
    sink = place.claimed()
    first = part(changes(("+", 1, "Ada"), ("+", 2, "Bob")))
    run(sink, proven(0), first)
    begun = sink.begin(proven(0))
    run(sink, proven(1), part(changes(("-", 1, "Ada"))))
    place.ask("PUT", f"{place.index}-0/_settings", {"index.gc_deletes": "0s"})
    # A deletion is forgotten at the refresh after its time.
    place.ask("POST", f"{place.index}-0/_refresh")
    with pytest.raises(SupersededError):
        sink.deliver(proven(0), begun, first)
    run(sink, proven(0, is_load=False, is_replay=True), first)
    assert [row["id"] for row in rows_of(sink)] == [2]


def test_a_poisoned_document_fails_the_batch_or_becomes_a_dead_letter(place: OpenSearchPlace, tmp_path: Path) -> None:
    place.put_template("-*", mappings={"properties": {"name": {"type": "long"}}})
    rows = part(changes(("+", 1, "7"), ("+", 2, "seven"), ("+", 3, POISON)))
    with pytest.raises(TerminalError, match=r"refuses document 1:2 for good \(failed to parse field \[name\]"):
        run(place.claimed(), proven(0), rows)
    [delivery] = run(place.claimed(dead_letters={"path": f"file://{tmp_path}"}), proven(0), rows)
    assert (delivery.documents, delivery.dead_letters) == (1, 2)
    letters = (tmp_path / "batch=0" / "part-00000.jsonl").read_text()
    assert "For input string" in letters
    assert "the document is larger than http.max_content_length" in letters
    assert set(place.found()) == {"1:1"}


def test_promoted_renamed_and_added_columns_need_no_new_index(place: OpenSearchPlace) -> None:
    sink = place.claimed()
    before = pa.schema([("id", pa.int32()), ("size", pa.float32())])
    after = pa.schema([("id", pa.int64()), ("length", pa.float64()), ("more", pa.list_(pa.int64()))])
    [old, new] = [
        pa.RecordBatch.from_pylist(rows, schema=schema)
        for rows, schema in [
            ([{"id": 1, "size": 0.1}, {"id": 2, "size": 0.2}], before),
            ([{"id": 2, "length": 1e300, "more": [2**62]}], after),
        ]
    ]
    run(sink, proven(0, before), part(change_rows(["INSERT", "INSERT"], old)))
    run(sink, proven(1, after), part(change_rows(["UPDATE_AFTER"], new)))
    assert place.found() == {"1:1": {"id": 1, "size": 0.10000000149011612}, "1:2": new.to_pylist()[0]}
    other = pa.schema([("id", pa.int64()), ("length", pa.struct([("x", pa.int64())]))])
    with pytest.raises(TerminalError, match=r"do not fit the table's columns: .* non object mapping"):
        sink.begin(proven(2, other))


def test_columns_that_no_index_can_have_together_are_refused_before_anything_is_sent(place: OpenSearchPlace) -> None:
    sink = place.claimed()
    with pytest.raises(TerminalError, match=r"fields of index people\d+-0 do not fit the table's columns: .*\[a\]"):
        sink.begin(proven(0, pa.schema([("id", pa.int64()), ("a", pa.int64()), ("a.b", pa.int64())])))


def test_a_template_of_the_cluster_does_not_change_how_documents_are_kept(place: OpenSearchPlace) -> None:
    careless = {"_source": {"enabled": False}, "_routing": {"required": True}, "properties": {"id": {"type": "text"}}}
    place.put_template("*", mappings=careless, settings={"index.gc_deletes": "1s", "number_of_shards": 3})
    sink = place.claimed(deletes="hard")
    run(sink, proven(0), part(changes(("+", 1, "Ada"), ("+", 2, "Bob"))))
    assert run(sink, proven(0), part(changes(("+", 1, "Ada"), ("+", 2, "Bob"))))[0].repeated == 2
    assert [row["id"] for row in rows_of(sink)] == [1, 2]


def test_a_field_of_a_template_stays_as_it_is_there(place: OpenSearchPlace) -> None:
    fields = {"name": {"type": "keyword"}, "at": {"properties": {"x": {"type": "byte"}}}, "_deleted": {"type": "text"}}
    place.put_template("-*", mappings={"properties": fields})
    table = pa.schema([*PEOPLE, ("at", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
    sink = place.claimed()
    for number in (0, 1):
        sink.finish(batch := proven(number, table), sink.begin(batch), [])
    [found] = place.ask("GET", place.index).values()
    made = found["mappings"]["properties"]
    assert (made["name"], made["_deleted"], made["id"]) == (
        {"type": "keyword"}, {"type": "boolean"}, {"type": "long"}
    )  # fmt: skip
    assert made["at"]["properties"] == {"x": {"type": "byte"}, "y": {"type": "long"}}


def test_an_https_address_of_a_port_without_tls_is_no_fault_of_a_certificate(place: OpenSearchPlace) -> None:
    with pytest.raises(TerminalError, match="TLS with the search cluster"):
        place.sink(url=place.url.replace("http:", "https:")).check()


def test_a_copy_that_takes_the_name_while_batches_go_on_loses_nothing(place: OpenSearchPlace) -> None:
    sink = place.claimed()
    run(sink, proven(0), part(changes(("+", 1, "Ada"), ("+", 2, "Bob"))))
    begun = sink.begin(proven(1))
    copy = f"{place.index}-copied"
    place.ask("POST", "_reindex?refresh=true", {"source": {"index": place.index}, "dest": {"index": copy}})
    delivery = sink.deliver(proven(1), begun, part(changes(("-", 1, "Ada"), ("+", 3, "Eva"))))
    alias = {"alias": place.index}
    moved = [{"remove": {**alias, "index": f"{place.index}-0"}}, {"add": {**alias, "index": copy}}]
    place.ask("POST", "_aliases", {"actions": moved})
    sink.finish(proven(1), begun, [delivery])
    assert set(place.found()) == {"1:2", "1:3"}
    assert set(place.ask("GET", place.index)) == {f"{place.index}-0"}
    run(sink, proven(2), part(changes(("+", 4, "Max"))))
    assert set(place.found()) == {"1:2", "1:3", "1:4"}
    run(sink, proven(5, is_load=True), part(changes(("+", 9, "new"))))
    assert place.indexes() == {f"{place.index}-5", copy, f"{place.index}-icefloe"}
