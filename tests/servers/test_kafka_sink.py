"""The kafka sink on a real broker: each change once, in the order of its key, whoever delivers it again."""

import gc
import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Message

from demo.servers.kafka import Kafka
from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.kafka import topics
from icefloe.sinks.kafka.topics import arrivals
from icefloe.sinks.sink import SupersededError
from servers.kafka_place import KafkaPlace, deliver_all, kafka_place
from sinks.kafka.staged_changes import CHANGES, FLIGHTS, LOAD, Staged, inserts

pytestmark = pytest.mark.servers


place = pytest.fixture(kafka_place)


def test_a_plain_reader_sees_each_change_once_in_the_order_of_its_key(place: KafkaPlace) -> None:
    sink = place.sink()
    sink.check()
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    deliveries = deliver_all(sink, CHANGES)
    assert [(each.rows, each.documents, each.repeated) for each in deliveries] == [(4, 3, 0)]
    by_key = defaultdict(list)
    for message in place.messages():
        value = message.value and json.loads(message.value)
        by_key[message.key].append(value and (value["op"], value["after"] and value["after"]["carrier"]))
    assert by_key == {
        b'{"id":1}': [("r", "a"), ("u", "A")],
        b'{"id":2}': [("r", "b"), ("d", None), None],
        b'{"id":3}': [("r", "c")],
        b'{"id":4}': [("c", "d")],
    }


def test_all_changes_can_be_read_back_or_those_of_some_keys(place: KafkaPlace) -> None:
    sink = place.loaded()
    deliver_all(sink, CHANGES)
    found = pa.Table.from_batches(list(place.sink().read_back(CHANGES.schema)))
    expected = pa.Table.from_batches([LOAD.rows_of(0), LOAD.rows_of(1), CHANGES.rows_of(0)])
    order = [("id", "ascending"), ("_batch", "ascending"), ("_change_type", "descending")]
    assert found.sort_by(order).equals(expected.sort_by(order))
    some = pa.Table.from_batches(
        list(sink.read_back(CHANGES.schema, keys=pa.RecordBatch.from_pydict({"id": pa.array([2], pa.int32())})))
    )
    assert some["_change_type"].to_pylist() == ["INSERT", "DELETE"]


def test_a_part_that_is_delivered_again_is_found_there(place: KafkaPlace) -> None:
    place.loaded()
    [first, second] = deliver_all(place.sink(), LOAD)
    assert (first.documents, first.repeated, first.bytes) == (2, 2, 0)
    assert (second.documents, second.repeated) == (1, 1)
    assert place.ids() == [1, 2, 3]


def test_a_sink_reads_nothing_between_its_looks_and_keeps_no_client_when_it_is_closed(place: KafkaPlace) -> None:
    # What an earlier test left to be collected would end in the middle of this one.
    gc.collect()
    before = threads_of_clients()
    sink = place.loaded()
    consumer = sink._log._consumer
    assert consumer is not None
    assert consumer.assignment() == []
    opened = threads_of_clients() - before
    assert opened
    del consumer
    sink.close()
    assert threads_of_clients() & opened == set()


def test_an_error_of_a_connection_is_forgotten_when_the_state_was_read(
    place: KafkaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one that the broker ended, because nobody had used it for minutes."""
    reader = place.sink()
    reader.claim(FLIGHTS)
    deliver_all(place.sink(), LOAD)

    def after_an_error(consumer: Consumer) -> list[Message]:
        reader._clients._note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        return arrivals(consumer)

    monkeypatch.setattr(topics, "arrivals", after_an_error)
    assert reader._log.look() is not None
    assert reader._clients.connection_error(reader._clients.admin) is None


def threads_of_clients() -> set[str]:
    """Those of librdkafka in this process; each client has some."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end between the list and the look.
        with suppress(OSError):
            if (task / "comm").read_text().startswith("rdk:"):
                found.add(task.name)
    return found


def test_a_batch_after_a_later_one_changes_nothing(place: KafkaPlace) -> None:
    sink = place.claimed()
    begun = sink.begin(LOAD.batch)
    zombie = place.sink()
    deliver_all(sink, LOAD)
    deliver_all(sink, CHANGES)
    events = place.events()
    with pytest.raises(SupersededError, match="batch 0 came too late for topic"):
        zombie.begin(LOAD.batch)
    with pytest.raises(SupersededError, match="batch 0 came too late for topic"):
        zombie.deliver(LOAD.batch, begun, LOAD.staged[0])
    with pytest.raises(SupersededError, match="batch 0 came too late for topic"):
        zombie.finish(LOAD.batch, begun, [])
    assert place.events() == events


def test_a_part_goes_on_after_the_last_transaction_with_other_bounds(place: KafkaPlace) -> None:
    sink = place.sink(transaction_rows=2)
    staged = inserts(0, range(7))
    sink.claim(FLIGHTS)
    begun = sink.begin(staged.batch)
    [part] = staged.staged
    half = inserts(0, range(4)).staged[0]
    sink.deliver(staged.batch, begun, half)
    delivery = place.sink(transaction_rows=3).deliver(staged.batch, begun, part)
    assert (delivery.documents, delivery.repeated) == (7, 4)
    assert place.ids() == list(range(7))


def test_a_batch_that_was_begun_in_other_parts_is_not_gone_on_with(place: KafkaPlace) -> None:
    sink = place.claimed()
    begun = sink.begin(replace(LOAD.batch, cut="one"))
    sink.deliver(LOAD.batch, begun, LOAD.staged[0])
    other = replace(LOAD, parts=LOAD.parts[::-1])
    for batch in (replace(LOAD.batch, cut="other"), replace(LOAD.batch, cut="other", is_replay=True)):
        with pytest.raises(TerminalError, match="staged files were lost and made again in other parts, so rows"):
            place.sink().begin(batch)
    place.sink().begin(replace(LOAD.batch, cut="one"))
    place.sink().begin(LOAD.batch)
    # A load after a reset is another batch.
    place.sink().begin(replace(replace(other, number=2).batch, cut="other"))
    place.sink().begin(replace(LOAD.batch, cut="one", is_replay=True))


def test_a_change_that_is_too_large_is_named_and_nothing_of_its_transaction_is_seen(place: KafkaPlace) -> None:
    sink = place.claimed(topic_settings={"max.message.bytes": 2000})
    staged = Staged(number=0, parts=[[("INSERT", 1, "a"), ("INSERT", 2, "b" * 3000)]])
    begun = sink.begin(staged.batch)
    with pytest.raises(TerminalError, match=r'with the key \{"id":2\} is too large for topic .* which takes 2000'):
        sink.deliver(staged.batch, begun, staged.staged[0])
    assert place.ids() == []


def test_an_unclaimed_topic_that_holds_messages_is_refused(place: KafkaPlace) -> None:
    place.loaded()
    other = place.sink(state_topic=f"{place.topic}-other")
    with pytest.raises(TerminalError, match="holds messages"):
        other.claim(FLIGHTS)


def test_a_name_that_no_topic_can_have_is_refused(kafka: Kafka) -> None:
    for topic in ("a b/ü", "x" * 245, ".."):
        with pytest.raises(TerminalError, match=r"correct sink\.topic or sink\.state_topic: up to 249 letters"):
            KafkaPlace(kafka=kafka, topic=topic).sink().check()


def test_brokers_that_do_not_answer_are_named(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "1")
    sink = KafkaPlace(kafka=kafka).sink(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(TransientError, match="see that its brokers run"):
        sink.check()
