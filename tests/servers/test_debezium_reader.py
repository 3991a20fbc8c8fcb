"""A topic read by Kafka Connect's JsonConverter and Debezium's ExtractNewRecordState gives the rows of the table."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from servers.kafka_place import KafkaPlace, deliver_all
from sinks.kafka.staged_changes import FLIGHTS, Staged
from support.servers.debezium_reader import read_as_debezium
from support.servers.kafka import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.extended]

KINDS: dict[str, pa.DataType] = {
    "id": pa.int64(), "flag": pa.bool_(), "small": pa.int32(), "single": pa.float32(), "double": pa.float64(),
    "price": pa.decimal128(9, 2), "large": pa.decimal128(38, 10), "day": pa.date32(), "at": pa.time64("us"),
    "local": pa.timestamp("us"), "instant": pa.timestamp("us", "UTC"), "nanos": pa.timestamp("ns"), "uid": pa.uuid(),
    "data": pa.binary(), "fixed": pa.binary(2), "word": pa.string(),
    "inner": pa.struct([pa.field("x", pa.int32()), pa.field("before", pa.string())]), "list": pa.list_(pa.int64()),
    "words": pa.map_(pa.string(), pa.int32()), "numbers": pa.map_(pa.int32(), pa.string()), "op": pa.string(),
    "before": pa.int32(),
}  # fmt: skip
TABLE = pa.schema([pa.field(name, kind, nullable=name != "id") for name, kind in KINDS.items()])
ROW: dict[str, Any] = {
    "id": 1, "flag": True, "small": -7, "single": 0.5, "double": 2.25, "price": Decimal("-12.34"),
    "large": Decimal("12345678901234567890.0123456789"), "day": date(1969, 12, 31), "at": time(10, 11, 12, 13),
    "local": datetime(2026, 1, 31, 10), "instant": datetime(2026, 1, 31, 10, tzinfo=UTC),
    "nanos": datetime(2026, 1, 31, 10), "uid": UUID("00010203-0405-0607-0809-0a0b0c0d0e0f").bytes, "data": b"\x00\xff",
    "fixed": b"ab", "word": 'ü "✓"\n', "inner": {"x": 3, "before": "b"}, "list": [1, None, 3],
    "words": [("a", 1), ("b", None)], "numbers": [(1, "one"), (2, None)], "op": "x", "before": 9,
}  # fmt: skip
MICROS = 1_769_853_600_000_000
READ: dict[str, Any] = ROW | {
    "price": Decimal("-12.34"), "day": -1, "at": 36_672_000_013, "local": MICROS,
    "instant": "2026-01-31T10:00:00.000000Z", "nanos": MICROS * 1000,
    "uid": "00010203-0405-0607-0809-0a0b0c0d0e0f", "data": "AP8=", "fixed": "YWI=", "words": {"a": 1, "b": None},
    "numbers": [[1, "one"], [2, None]],
}  # fmt: skip
"""The row as Connect's converter gives it, each value of a logical type in its own form."""
EMPTY = dict.fromkeys(KINDS) | {"id": 2}
LOAD = Staged(
    number=0,
    table=TABLE,
    parts=[[("INSERT", *ROW.values()), ("INSERT", *EMPTY.values())]],
    options={"identity": ("id",)},
).load()
CHANGES = Staged(
    number=1, table=TABLE,
    parts=[[("UPDATE_BEFORE", *ROW.values()), ("UPDATE_AFTER", *(ROW | {"small": 8}).values()),
            ("DELETE", *EMPTY.values()), ("INSERT", *(EMPTY | {"id": 3}).values())]],
)  # fmt: skip
KEYS = [{"id": 1}, {"id": 2}, {"id": 1}, {"id": 2}, {"id": 2}, {"id": 3}]
TOMBSTONE = 4


@pytest.fixture
def place(kafka: Kafka) -> Iterator[KafkaPlace]:
    place = KafkaPlace(kafka=kafka, options={"partitions": 1})
    yield place
    place.close()


def delivered(place: KafkaPlace, *batches: Staged, has_schemas: bool = True) -> list[tuple[Any, Any]]:
    """Keys and rows of these batches, as Debezium's reader has them."""
    sink = place.sink(json_schema=has_schemas)
    sink.claim(FLIGHTS)
    for staged in batches:
        deliver_all(sink, staged)
    return read_as_debezium(place.kafka.bootstrap_servers, place.topic, schemas=has_schemas)


def test_debezium_takes_each_row_out_of_its_envelope(place: KafkaPlace) -> None:
    found = delivered(place, LOAD, CHANGES)
    assert [key for key, _ in found] == KEYS
    rows = [row for _, row in found]
    assert rows[TOMBSTONE] == "dropped"
    del rows[TOMBSTONE]
    assert [{name: row[name] for name in KINDS} for row in rows] == [
        READ, EMPTY, READ | {"small": 8}, EMPTY, EMPTY | {"id": 3}
    ]  # fmt: skip
    added = [tuple(value for name, value in row.items() if name not in KINDS) for row in rows]
    # __deleted, then the fields that the transformation was asked to add.
    assert added == [
        (deleted, op, str(2**60 + batch), 1_795_316_645_678, "flights", str(batch))
        for deleted, op, batch in (
            ("false", "r", 0), ("false", "r", 0), ("false", "u", 1), ("true", "d", 1), ("false", "c", 1)
        )
    ]  # fmt: skip


def test_connect_reads_envelopes_without_schemas(place: KafkaPlace) -> None:
    found = delivered(place, LOAD, CHANGES, has_schemas=False)
    assert [key for key, _ in found] == KEYS
    texts = {"price": "-12.34", "large": "12345678901234567890.0123456789"}
    images = [(row["before"], row["after"]) for _, row in found if row != "dropped"]
    assert images == [
        (None, READ | texts), (None, EMPTY), (READ | texts, READ | texts | {"small": 8}), (EMPTY, None),
        (None, EMPTY | {"id": 3}),
    ]  # fmt: skip
    # Without a schema nothing tells an envelope from a row, so the transformation leaves it as it is.
    assert [row if row == "dropped" else row["op"] for _, row in found] == ["r", "r", "u", "d", "dropped", "c"]


def test_a_load_that_begins_again_passes_through_debezium(place: KafkaPlace) -> None:
    again = Staged(number=1, table=TABLE, parts=[[("INSERT", *EMPTY.values())]]).load()
    found = delivered(place, LOAD, again)
    assert [(key, row if row in ("dropped", None) else row["__op"]) for key, row in found] == [
        ({"id": 1}, "r"), ({"id": 2}, "r"), (None, "dropped"), ({"id": 2}, "r")
    ]  # fmt: skip


def test_connect_takes_numbers_that_json_does_not_have_for_zero(place: KafkaPlace) -> None:
    odd = EMPTY | {"single": float("inf"), "double": float("nan")}
    [(_, row)] = delivered(place, Staged(number=0, table=TABLE, parts=[[("INSERT", *odd.values())]]))
    assert (row["single"], row["double"]) == (0.0, 0.0)
