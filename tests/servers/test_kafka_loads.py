"""Loads into a topic that has messages already: plain readers learn that these count no longer."""

import json
from collections import defaultdict
from dataclasses import replace

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.kafka import kafka_sink
from icefloe.sinks.sink import SupersededError
from servers.kafka_place import KafkaPlace, deliver_all, kafka_place
from sinks.kafka.staged_changes import FLIGHTS, LOAD, inserts

pytestmark = pytest.mark.servers


place = pytest.fixture(kafka_place)


def silent(*_: object) -> None:
    raise TransientError("no answer")


def assert_each_partition_is_truncated_once(place: KafkaPlace) -> None:
    """Before the truncation, each partition has rows of the first load alone."""
    by_partition = defaultdict(list)
    for message in place.messages():
        by_partition[message.partition].append(json.loads(message.value or b"")["op"])
    assert sorted(by_partition) == [0, 1]
    for operations in by_partition.values():
        assert operations.count("t") == 1
        assert set(operations[: operations.index("t")]) <= {"r"}


def test_a_load_that_begins_again_truncates_each_partition_first(place: KafkaPlace) -> None:
    sink = place.loaded()
    again = inserts(1, range(10, 20)).load()
    deliver_all(sink, again)
    assert_each_partition_is_truncated_once(place)
    found = pa.Table.from_batches(list(sink.read_back(again.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))


def test_a_load_that_is_delivered_again_truncates_after_a_beginning_that_failed(
    place: KafkaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.claimed()
    late = sink.begin(LOAD.batch)
    sink.deliver(LOAD.batch, late, LOAD.staged[0])
    again = inserts(2, range(10, 20), options={"is_replay": True}).load()
    with monkeypatch.context() as patched:
        patched.setattr(kafka_sink, "offsets", silent)
        with pytest.raises(TransientError):
            place.sink().begin(again.batch)
    deliver_all(place.sink(), again)
    assert_each_partition_is_truncated_once(place)
    found = pa.Table.from_batches(list(sink.read_back(again.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))
    with pytest.raises(SupersededError, match="batch 0 came too late"):
        sink.deliver(LOAD.batch, late, LOAD.staged[1])


def test_a_new_owner_of_a_topic_begins_after_the_rows_before_it_also_when_its_first_try_fails(
    place: KafkaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.loaded()
    other = replace(FLIGHTS, owner="checkpoint-2")
    place.sink().claim(other, takes_over=True)
    with pytest.raises(TerminalError, match="batch 1 of pipeline flights replaces nothing: run `icefloe reset"):
        place.sink().begin(inserts(1, range(3), origin=other).batch)
    first = inserts(1, range(10, 20), origin=other, options={"is_replay": True})
    with monkeypatch.context() as patched:
        patched.setattr(kafka_sink, "offsets", silent)
        with pytest.raises(TransientError):
            place.sink().begin(first.batch)
    deliver_all(place.sink(), first)
    found = pa.Table.from_batches(list(place.sink().read_back(first.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))


def test_a_load_into_a_filled_topic_whose_state_is_lost_truncates_each_partition_first(place: KafkaPlace) -> None:
    place.loaded()
    again = inserts(0, range(10, 20)).load()
    for envelope in ("plain", "debezium"):
        sink = place.sink(envelope=envelope, state_topic=f"{place.topic}-{envelope}")
        sink.claim(FLIGHTS, takes_over=True)
        if envelope == "plain":
            with pytest.raises(TerminalError, match="has rows from before this load"):
                sink.begin(again.batch)
    deliver_all(sink, again)
    assert [operation for operation, *_ in place.events()].count("t") == 2
    found = pa.Table.from_batches(list(sink.read_back(again.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))


def test_plain_rows_cannot_be_loaded_again_into_their_topic(place: KafkaPlace) -> None:
    sink = place.loaded(envelope="plain")
    with pytest.raises(TerminalError, match=r"give sink\.topic another name"):
        sink.begin(inserts(1, range(3)).load().batch)
