"""Topics that are not what they were in the batch before: with other partitions or keys, restored, or gone."""

from dataclasses import replace

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.kafka.kafka_sink import KafkaSink
from icefloe.sinks.kafka.message_format import Encoder
from servers.kafka_place import KafkaPlace, deliver_all, kafka_place
from sinks.kafka.staged_changes import CHANGES, FLIGHTS, LOAD, Staged, inserts

pytestmark = [pytest.mark.servers, pytest.mark.extended]

MOCKED = {"format": "avro", "schema_registry": {"url": "mock://promoted"}}


place = pytest.fixture(kafka_place)


@pytest.mark.parametrize("moment", ["between batches", "within a batch"])
def test_a_topic_that_gets_partitions_is_an_error_until_it_is_loaded_again(place: KafkaPlace, moment: str) -> None:
    sink = place.loaded()
    begun = sink.begin(CHANGES.batch)
    place.add_partitions(3)
    again = place.sink()
    calls = {
        "within a batch": lambda: sink.deliver(CHANGES.batch, begun, CHANGES.staged[0]),
        "between batches": lambda: again.begin(CHANGES.batch),
    }
    with pytest.raises(TerminalError, match="its number of partitions is 3, and was 2"):
        calls[moment]()
    assert place.ids() == [1, 2, 3]
    deliver_all(place.sink(), inserts(2, range(5)).load())


@pytest.mark.parametrize(
    ("options", "before", "after", "moves"),
    [
        (MOCKED, pa.decimal128(10, 2), pa.decimal128(18, 2), True),
        ({}, pa.decimal128(10, 2), pa.decimal128(18, 2), False),
        ({}, pa.date32(), pa.timestamp("us"), True),
    ],
    ids=["decimal in Avro", "decimal", "date"],
)
def test_a_promotion_that_would_move_keys_is_an_error_until_the_table_is_loaded_again(
    place: KafkaPlace, options: dict[str, object], before: pa.DataType, after: pa.DataType, moves: bool
) -> None:
    sink = place.claimed(**options)
    first = Staged(number=0, parts=[[]], table=pa.schema([pa.field("id", before, nullable=False)])).load()
    deliver_all(sink, first)
    promoted = Staged(number=1, parts=[[]], table=pa.schema([pa.field("id", after, nullable=False)]))
    if moves:
        with pytest.raises(TerminalError, match="its type of a column of the key is"):
            sink.begin(promoted.batch)
        promoted = promoted.load()
    deliver_all(sink, promoted)
    deliver_all(sink, replace(promoted, number=2))


def at_a_rebuilt_registry(place: KafkaPlace, sink: KafkaSink) -> KafkaSink:
    """The sink of another process, whose registry gives other ids."""
    again = place.sink(**MOCKED)
    assert again._format.registry is not None
    again._format.registry.register("other", {"type": "string"})
    assert Encoder(again._format, LOAD.batch).key_schema_id != Encoder(sink._format, LOAD.batch).key_schema_id
    return again


def test_another_schema_id_of_keys_is_an_error_until_the_table_is_loaded_again(place: KafkaPlace) -> None:
    sink = place.loaded(**MOCKED)
    again = at_a_rebuilt_registry(place, sink)
    with pytest.raises(TerminalError, match="its schema id of the key is 2, and was 1"):
        again.begin(CHANGES.batch)
    begun = sink.begin(CHANGES.batch)
    with pytest.raises(TerminalError, match="its schema id of the key is 2, and was 1"):
        again.deliver(CHANGES.batch, begun, CHANGES.staged[0])
    deliver_all(again, inserts(2, range(5)).load())
    deliver_all(again, inserts(3, range(5, 9)))


def test_a_topic_that_was_made_again_is_an_error(place: KafkaPlace) -> None:
    place.loaded()
    place.make_again()
    with pytest.raises(TerminalError, match="was made again, or its keys would move: its id is"):
        place.sink().begin(CHANGES.batch)


def test_a_topic_whose_state_ends_before_the_batch_that_was_delivered_last_was_restored(place: KafkaPlace) -> None:
    sink = place.loaded()
    missing, after = replace(CHANGES, number=2), inserts(3, range(5, 6), options={"delivered_before": 2})
    with pytest.raises(TerminalError, match=r"says that batch 0 was the last: .* flights --batches 1-2`, or run"):
        sink.begin(after.batch)
    deliver_all(sink, replace(missing, options={"is_replay": True}))
    deliver_all(sink, after)
    assert place.ids() == [1, 1, 2, 3, 4, 5]


def test_a_topic_that_is_deleted_with_its_state_is_another_destination(place: KafkaPlace) -> None:
    """`deliver_batch` goes on at no other one; a load after a reset begins in the new topic as in any empty one."""
    sink = place.claimed(envelope="plain")
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
    sink = place.claimed()
    begun = sink.begin(LOAD.batch)
    place.delete()
    with pytest.raises(TerminalError, match="it was deleted with the changes in it"):
        sink.deliver(LOAD.batch, begun, LOAD.staged[0])
