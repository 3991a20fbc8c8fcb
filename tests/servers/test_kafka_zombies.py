"""Deliveries that stop at a row of a part while others go on, and a broker that is killed: every change comes once."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from demo.servers.kafka import Kafka
from icefloe.sinks.sink import PartDelivery, SupersededError
from servers.conftest import or_skip
from servers.kafka_place import KafkaPlace, deliver_all
from sinks.kafka.staged_changes import FLIGHTS, Staged, inserts

pytestmark = [pytest.mark.servers, pytest.mark.extended]

ROWS = 40


@pytest.fixture
def place(kafka: Kafka) -> Iterator[KafkaPlace]:
    place = KafkaPlace(kafka=kafka)
    place.sink().claim(FLIGHTS)
    yield place
    place.close()


def delivered_after(place: KafkaPlace, row: int, meanwhile: Callable[[], object], **options: object) -> PartDelivery:
    """Delivers a batch of one part; before it reads a row for the first time, others go on."""
    sink, staged = place.sink(transaction_rows=3, transaction_seconds=10, **options), inserts(0, range(ROWS))
    [part] = staged.staged
    stops = [row]

    def read() -> Iterator[pa.RecordBatch]:
        for each in range(ROWS):
            if each in stops:
                stops.clear()
                meanwhile()
            yield staged.rows_of(0).slice(each, 1)

    return sink.deliver(staged.batch, sink.begin(staged.batch), replace(part, read=read))


@pytest.mark.parametrize(("row", "duplicates"), [(0, "keep_one"), (23, "keep_one"), (39, "fail")])
def test_a_delivery_that_was_stopped_adds_nothing_when_it_goes_on(place: KafkaPlace, row: int, duplicates: str) -> None:
    def others() -> None:
        [delivery] = deliver_all(place.sink(), inserts(0, range(ROWS)))
        assert delivery.documents == ROWS

    found = delivered_after(place, row, others, duplicates=duplicates)
    assert (found.documents, found.repeated) == (ROWS, ROWS)
    assert place.ids() == list(range(ROWS))


def test_a_batch_after_one_that_never_ended_keeps_its_deliveries_out(place: KafkaPlace) -> None:
    sent: list[int] = []

    def abandon() -> None:
        # The next batch has no part of this number, whose sender would fence it anyway.
        deliver_all(place.sink(), Staged(number=1, parts=[]))
        sent.extend(place.ids())

    with pytest.raises(SupersededError, match="batch 0 came too late"):
        delivered_after(place, 20, abandon)
    assert place.ids() == sent
    assert len(sent) < ROWS


def test_a_broker_that_is_killed_within_a_transaction_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with or_skip(Kafka(folder=tmp_path / "kafka")) as kafka:
        place = KafkaPlace(kafka=kafka)
        place.sink().claim(FLIGHTS)
        assert delivered_after(place, 5, kafka.restart).documents == ROWS
        assert place.ids() == list(range(ROWS))
        place.close()
