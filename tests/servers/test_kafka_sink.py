import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.batch.deliver.delivery_records import DeliveryRecords
from icefloe.documents import dump_document
from icefloe.sinks.kafka import topic_batches
from icefloe.sinks.kafka.kafka_refusals import KafkaSilentError
from icefloe.sinks.kafka.kafka_sink import KafkaSink
from icefloe.sinks.kafka.topic_batches import OtherPartsError, TopicChangedError
from icefloe.sinks.kafka.topic_owner import TopicOwnedError, deciding
from icefloe.sinks.kafka.topic_state import BATCH_KEY
from icefloe.sinks.kafka.transaction import TooLargeError
from icefloe.sinks.part_sink import SupersededError
from icefloe.storage.location import open_store
from servers.kafka_place import KafkaPlace, deliver_all
from sinks.kafka.staged_changes import FLIGHTS, Staged, inserts
from support.servers.kafka import Kafka
from support.servers.kafka_reader import read_topic

pytestmark = pytest.mark.servers


@pytest.fixture
def place(kafka: Kafka) -> Iterator[KafkaPlace]:
    place = KafkaPlace(kafka=kafka)
    yield place
    place.close()


LOAD = Staged(number=0, parts=[[("INSERT", 1, "a"), ("INSERT", 2, "b")], [("INSERT", 3, "c")]]).load()
CHANGES = Staged(
    number=1, parts=[[("UPDATE_BEFORE", 1, "a"), ("UPDATE_AFTER", 1, "A"), ("DELETE", 2, "b"), ("INSERT", 4, "d")]]
)


def silent(*_: object) -> None:
    raise KafkaSilentError("no answer", code="_TIMED_OUT", topic="flights")


def test_a_plain_reader_sees_each_change_once_in_the_order_of_its_key(place: KafkaPlace) -> None:
    sink = place.sink(transaction_topic=f"{place.topic}-batches")
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
    sink = place.sink()
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
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
    sink = place.sink()
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    [first, second] = deliver_all(place.sink(), LOAD)
    assert (first.documents, first.repeated, first.bytes) == (2, 2, 0)
    assert (second.documents, second.repeated) == (1, 1)
    assert place.ids() == [1, 2, 3]


def test_a_batch_after_a_later_one_changes_nothing(place: KafkaPlace) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
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


def test_a_load_that_begins_again_truncates_each_partition_first(place: KafkaPlace) -> None:
    sink = place.sink(transaction_topic=f"{place.topic}-batches")
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    again = inserts(1, range(10, 20)).load()
    deliver_all(sink, again)
    by_partition = defaultdict(list)
    for message in place.messages():
        by_partition[message.partition].append(json.loads(message.value or b"")["op"])
    assert sorted(by_partition) == [0, 1]
    for operations in by_partition.values():
        assert operations.count("t") == 1
        assert set(operations[: operations.index("t")]) <= {"r"}
    found = pa.Table.from_batches(list(sink.read_back(again.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))
    marks = [
        json.loads(each.value or b"") for each in read_topic(place.kafka.bootstrap_servers, f"{place.topic}-batches")
    ]
    assert [(mark["status"], mark["id"], mark["event_count"]) for mark in marks] == [
        ("BEGIN", "0", None), ("END", "0", 3), ("BEGIN", "1", None), ("END", "1", 10)
    ]  # fmt: skip


def test_a_load_that_is_delivered_again_truncates_after_a_beginning_that_failed(
    place: KafkaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
    late = sink.begin(LOAD.batch)
    sink.deliver(LOAD.batch, late, LOAD.staged[0])
    again = inserts(2, range(10, 20), options={"is_replay": True}).load()

    with monkeypatch.context() as patched:
        patched.setattr(topic_batches, "_open", silent)
        with pytest.raises(KafkaSilentError):
            place.sink().begin(again.batch)
    deliver_all(place.sink(), again)
    by_partition = defaultdict(list)
    for message in place.messages():
        by_partition[message.partition].append(json.loads(message.value or b"")["op"])
    assert sorted(by_partition) == [0, 1]
    for operations in by_partition.values():
        assert operations.count("t") == 1
        assert set(operations[: operations.index("t")]) <= {"r"}
    found = pa.Table.from_batches(list(sink.read_back(again.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))
    with pytest.raises(SupersededError, match="batch 0 came too late"):
        sink.deliver(LOAD.batch, late, LOAD.staged[1])


def test_a_new_owner_of_a_topic_begins_after_the_rows_before_it_also_when_its_first_try_fails(
    place: KafkaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.sink().claim(FLIGHTS)
    deliver_all(place.sink(), LOAD)
    other = replace(FLIGHTS, owner="checkpoint-2")
    place.sink().claim(other, takes_over=True)
    with pytest.raises(TopicChangedError, match="batch 1 of pipeline flights replaces nothing: run icefloe reset"):
        place.sink().begin(inserts(1, range(3), origin=other).batch)
    first = inserts(1, range(10, 20), origin=other, options={"is_replay": True})
    with monkeypatch.context() as patched:
        patched.setattr(topic_batches, "_open", silent)
        with pytest.raises(KafkaSilentError):
            place.sink().begin(first.batch)
    deliver_all(place.sink(), first)
    found = pa.Table.from_batches(list(place.sink().read_back(first.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))


def test_a_load_into_a_filled_topic_whose_state_is_lost_truncates_each_partition_first(place: KafkaPlace) -> None:
    place.sink().claim(FLIGHTS)
    deliver_all(place.sink(), LOAD)
    again = inserts(0, range(10, 20)).load()
    for envelope in ("plain", "debezium"):
        sink = place.sink(envelope=envelope, state_topic=f"{place.topic}-{envelope}")
        sink.claim(FLIGHTS, takes_over=True)
        if envelope == "plain":
            with pytest.raises(TopicChangedError, match="has rows from before this load"):
                sink.begin(again.batch)
    deliver_all(sink, again)
    assert [operation for operation, *_ in place.events()].count("t") == 2
    found = pa.Table.from_batches(list(sink.read_back(again.schema)))
    assert sorted(found["id"].to_pylist()) == list(range(10, 20))


def test_plain_rows_cannot_be_loaded_again_into_their_topic(place: KafkaPlace) -> None:
    sink = place.sink(envelope="plain")
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    with pytest.raises(TopicChangedError, match=r"give sink\.topic another name"):
        sink.begin(inserts(1, range(3)).load().batch)


@pytest.mark.parametrize("moment", ["between batches", "within a batch"])
def test_a_topic_that_gets_partitions_is_an_error_until_it_is_loaded_again(place: KafkaPlace, moment: str) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    begun = sink.begin(CHANGES.batch)
    place.add_partitions(3)
    again = place.sink()
    calls = {
        "within a batch": lambda: sink.deliver(CHANGES.batch, begun, CHANGES.staged[0]),
        "between batches": lambda: again.begin(CHANGES.batch),
    }
    with pytest.raises(TopicChangedError, match="3 partitions"):
        calls[moment]()
    assert place.ids() == [1, 2, 3]
    deliver_all(place.sink(), inserts(2, range(5)).load())


MOCKED = {"format": "avro", "schema_registry": {"url": "mock://promoted"}}


@pytest.mark.parametrize(
    ("options", "before", "after", "moves"),
    [
        (MOCKED, pa.decimal128(10, 2), pa.decimal128(18, 2), True),
        ({"json_schema": True}, pa.decimal128(10, 2), pa.decimal128(18, 2), True),
        ({}, pa.decimal128(10, 2), pa.decimal128(18, 2), False),
        ({}, pa.date32(), pa.timestamp("us"), True),
        (MOCKED, pa.int32(), pa.int64(), False),
    ],
    ids=["decimal in Avro", "decimal with its schema", "decimal", "date", "int in Avro"],
)
def test_a_promotion_that_would_move_keys_is_an_error_until_the_table_is_loaded_again(
    place: KafkaPlace, options: dict[str, object], before: pa.DataType, after: pa.DataType, moves: bool
) -> None:
    sink = place.sink(**options)
    sink.claim(FLIGHTS)
    first = Staged(number=0, parts=[[]], table=pa.schema([pa.field("id", before, nullable=False)])).load()
    deliver_all(sink, first)
    promoted = Staged(number=1, parts=[[]], table=pa.schema([pa.field("id", after, nullable=False)]))
    if moves:
        with pytest.raises(TopicChangedError, match=r"the key of topic .* since batch 0 \(id, which was"):
            sink.begin(promoted.batch)
        promoted = promoted.load()
    deliver_all(sink, promoted)
    deliver_all(sink, replace(promoted, number=2))


def at_a_rebuilt_registry(place: KafkaPlace, sink: KafkaSink) -> KafkaSink:
    """The sink of another process, whose registry gives other ids."""
    again = place.sink(**MOCKED)
    again._format._registry.register("other", {"type": "string"})
    assert again._format.encoder(LOAD.batch).key_schema_id != sink._format.encoder(LOAD.batch).key_schema_id
    return again


def test_another_schema_id_of_keys_is_an_error_until_the_table_is_loaded_again(place: KafkaPlace) -> None:
    sink = place.sink(**MOCKED)
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    again = at_a_rebuilt_registry(place, sink)
    with pytest.raises(TopicChangedError, match="the schema id 2, and gave them 1: keys would move"):
        again.begin(CHANGES.batch)
    begun = sink.begin(CHANGES.batch)
    with pytest.raises(TopicChangedError, match="the schema id 2, and gave them 1: keys would move"):
        again.deliver(CHANGES.batch, begun, CHANGES.staged[0])
    deliver_all(again, inserts(2, range(5)).load())
    deliver_all(again, inserts(3, range(5, 9)))


def test_a_topic_whose_batches_have_no_schema_id_takes_the_first_that_comes(place: KafkaPlace) -> None:
    sink = place.sink(**MOCKED)
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    state = sink._log.look()
    assert state is not None
    assert state.batch is not None
    older = dump_document(replace(state.batch, key_schema_id=None))
    assert b"key_schema_id" not in older
    with deciding(sink._clients, sink._options) as producer:
        producer.commit_records(sink._options.tokens, [(BATCH_KEY, older)])
    again = at_a_rebuilt_registry(place, sink)
    deliver_all(again, CHANGES)
    with pytest.raises(TopicChangedError, match="the schema id 1, and gave them 2"):
        sink.begin(inserts(2, range(3)).batch)


def test_a_topic_that_was_made_again_is_an_error(place: KafkaPlace) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    place.make_again()
    with pytest.raises(TopicChangedError, match="was deleted and made again since batch 0"):
        place.sink().begin(CHANGES.batch)


def test_a_batch_that_was_begun_in_other_parts_is_not_gone_on_with(place: KafkaPlace) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
    begun = sink.begin(replace(LOAD.batch, cut="one"))
    sink.deliver(LOAD.batch, begun, LOAD.staged[0])
    other = replace(LOAD, parts=LOAD.parts[::-1])
    for batch in (replace(LOAD.batch, cut="other"), replace(LOAD.batch, cut="other", is_replay=True)):
        with pytest.raises(OtherPartsError, match="staged files were lost and made again in other parts, so rows"):
            place.sink().begin(batch)
    place.sink().begin(replace(LOAD.batch, cut="one"))
    place.sink().begin(LOAD.batch)
    # A load after a reset is another batch.
    place.sink().begin(replace(replace(other, number=2).batch, cut="other"))
    place.sink().begin(replace(LOAD.batch, cut="one", is_replay=True))


def test_a_batch_that_an_earlier_release_began_goes_on_in_its_parts(place: KafkaPlace) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
    sink.begin(LOAD.batch)
    place.sink().begin(replace(LOAD.batch, cut="one"))


def test_a_topic_whose_state_ends_before_the_batch_that_was_delivered_last_was_restored(place: KafkaPlace) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
    deliver_all(sink, LOAD)
    missing, after = replace(CHANGES, number=2), inserts(3, range(5, 6), options={"delivered_before": 2})
    with pytest.raises(TopicChangedError, match=r"says that batch 0 was the last: .* flights --batches 1-2, or load"):
        sink.begin(after.batch)
    deliver_all(sink, replace(missing, options={"is_replay": True}))
    deliver_all(sink, after)
    assert place.ids() == [1, 1, 2, 3, 4, 5]


def test_a_topic_that_is_deleted_with_its_state_is_another_destination(place: KafkaPlace) -> None:
    """`deliver_batch` goes on at no other one; a load after a reset begins in the new topic as in any empty one."""
    sink = place.sink(envelope="plain")
    sink.claim(FLIGHTS)
    begun = dict(sink.begin(LOAD.batch))
    sink.deliver(LOAD.batch, begun, LOAD.staged[0])
    place.delete()
    KafkaPlace(kafka=place.kafka, topic=f"{place.topic}.icefloe").delete()
    again = place.sink(envelope="plain")
    again.claim(FLIGHTS)
    now = dict(again.begin(LOAD.batch))
    assert begun.pop("destination") != now.pop("destination")
    assert begun == now
    deliver_all(again, replace(LOAD, number=2))
    assert len(place.messages()) == 3


def test_a_topic_that_is_deleted_within_a_batch_is_named(place: KafkaPlace) -> None:
    sink = place.sink()
    sink.claim(FLIGHTS)
    begun = sink.begin(LOAD.batch)
    place.delete()
    with pytest.raises(TopicChangedError, match="is missing: it was deleted with the changes in it"):
        sink.deliver(LOAD.batch, begun, LOAD.staged[0])


def test_a_change_that_is_too_large_is_named_and_nothing_of_its_transaction_is_seen(place: KafkaPlace) -> None:
    sink = place.sink(topic_settings={"max.message.bytes": 2000})
    sink.claim(FLIGHTS)
    staged = Staged(number=0, parts=[[("INSERT", 1, "a"), ("INSERT", 2, "b" * 3000)]])
    begun = sink.begin(staged.batch)
    with pytest.raises(TooLargeError, match=r'with the key \{"id":2\} is too large for topic .* which takes 2000'):
        sink.deliver(staged.batch, begun, staged.staged[0])
    assert place.ids() == []


def test_a_change_that_was_too_large_is_sent_as_soon_as_the_topic_takes_it(place: KafkaPlace, tmp_path: Path) -> None:
    place.sink(topic_settings={"max.message.bytes": 2000}).claim(FLIGHTS)
    staged = Staged(number=0, parts=[[("INSERT", 1, "a"), ("INSERT", 2, "b" * 3000)]])
    records = DeliveryRecords(open_store(tmp_path.as_uri()))
    begun = records.begin(place.sink().begin(staged.batch))
    with pytest.raises(TooLargeError):
        place.sink().deliver(staged.batch, begun, staged.staged[0])
    place.take_messages_of(2**20)
    begun = records.begin(place.sink().begin(staged.batch))
    place.sink().deliver(staged.batch, begun, staged.staged[0])
    assert place.ids() == [1, 2]


def test_an_unclaimed_topic_that_holds_messages_is_refused(place: KafkaPlace) -> None:
    place.sink().claim(FLIGHTS)
    deliver_all(place.sink(), LOAD)
    other = place.sink(state_topic=f"{place.topic}-other")
    with pytest.raises(TopicOwnedError, match="holds messages"):
        other.claim(FLIGHTS)


def test_brokers_that_do_not_answer_are_named(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "1")
    sink = KafkaPlace(kafka=kafka).sink(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaSilentError, match="see that its brokers run"):
        sink.check()
