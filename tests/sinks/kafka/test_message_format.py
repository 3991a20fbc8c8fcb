"""Messages of every envelope and format are read back as the changes that they were."""

import json
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TerminalError
from icefloe.sinks.events import event_rows, fixed_types
from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaOptions
from icefloe.sinks.kafka.message_format import Encoder, MessageFormat, RetainedChanges
from sinks.kafka.staged_changes import Staged
from sinks.kafka.test_json_texts import GOLDEN

TYPES = pa.schema(
    [pa.field("id", pa.int32(), nullable=False), *(pa.field(f"c {n}", kind) for n, (kind, *_) in enumerate(GOLDEN))]
)
VALUES = [value for _, value, *_ in GOLDEN]
ROWS = [
    ("INSERT", 1, *VALUES),
    ("UPDATE_BEFORE", 2, *VALUES),
    ("UPDATE_AFTER", 2, *(None for _ in VALUES)),
    ("DELETE", 3, *VALUES),
]
STAGED = Staged(number=7, table=TYPES, parts=[ROWS])
FORMATS: dict[str, dict[str, Any]] = {
    "json": {},
    "avro": {"format": "avro", "schema_registry": {"url": "mock://tests"}},
}


@dataclass
class Sent:
    """A message as a consumer gives it."""

    sent_key: bytes | None
    sent_value: bytes | None
    number: int = 7

    def key(self):
        return self.sent_key

    def value(self):
        return self.sent_value

    def headers(self):
        return [("pipeline", b"it"), ("batch", str(self.number).encode()), ("snapshot_id", str(2**60 + 7).encode())]


@dataclass
class Foreign(Sent):
    """A message of a program that has batches of its own."""

    def headers(self):
        return [("batch", b"nightly-7"), ("source", b"billing")]


@dataclass
class Misnumbered(Sent):
    """A message with the headers of the sink, in which somebody wrote another batch."""

    def headers(self):
        return [("pipeline", b"it"), ("batch", b"nightly-7"), ("snapshot_id", b"7")]


def format_of(**options):
    checked = KafkaOptions.of({"topic": "flights", "bootstrap_servers": "broker:9092", **options})
    return MessageFormat(checked, KafkaClients.of(checked, {}))


def sent_by(format_, staged):
    [events] = event_rows([staged.rows_of(0)])
    pairs = zip(*Encoder(format_, staged.batch).encode(events), strict=True)
    return [Sent(key, value, staged.number) for key, value in pairs]


@pytest.mark.parametrize("name", FORMATS)
def test_all_types_come_back_from_debeziums_envelope(name) -> None:
    format_ = format_of(**FORMATS[name])
    assert RetainedChanges(format_, STAGED.schema).rows(sent_by(format_, STAGED)).equals(STAGED.rows_of(0))


@pytest.mark.parametrize("name", FORMATS)
def test_plain_rows_come_back_without_images_of_what_is_gone(name) -> None:
    format_ = format_of(envelope="plain", **FORMATS[name])
    found = RetainedChanges(format_, STAGED.schema).rows(sent_by(format_, STAGED))
    expected = STAGED.rows_of(0)
    assert found.slice(0, 2).equals(expected.take(pa.array([0, 2])))
    assert found.select(["_batch", "_change_type", "_commit_snapshot_id", "id"]).to_pylist()[2] == {
        "_batch": 7, "_change_type": "DELETE", "_commit_snapshot_id": 2**60 + 7, "id": 3
    }  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("envelope", ["debezium", "plain"])
def test_properties_of_a_commit_are_in_every_envelope(name, envelope) -> None:
    format_ = format_of(envelope=envelope, **FORMATS[name])
    staged = Staged(number=7, table=pa.schema({"id": pa.int64()}), parts=[[("INSERT", 1), ("INSERT", 2)]])
    schema = ChangeColumns.schema(staged.table, with_batch=True, with_properties=True)
    said = pa.array([[("who", "ann")], []], pa.map_(pa.string(), pa.string()))
    rows = staged.rows_of(0)
    given = pa.RecordBatch.from_arrays([*rows.columns[:5], said, *rows.columns[5:]], schema=schema)
    [events] = event_rows([given])
    sent = [
        Sent(*pair) for pair in zip(*Encoder(format_, replace(staged.batch, schema=schema)).encode(events), strict=True)
    ]
    payloads = [format_.payload(each.value()) for each in sent]
    found = [p["source"]["commit_properties"] if envelope == "debezium" else p["_commit_properties"] for p in payloads]
    assert [dict(each) for each in found] == [{"who": "ann"}, {}]
    assert RetainedChanges(format_, rows.schema).rows(sent).equals(rows)


def of_struct(number: int, *names: str) -> Staged:
    at = pa.struct([(name, pa.int64()) for name in names])
    return Staged(number=number, table=pa.schema({"id": pa.int64(), "at": at}), parts=[
        [("INSERT", 1, None), ("INSERT", 2, dict.fromkeys(names, 7))]
    ])  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_field_that_a_struct_did_not_have_is_null(name) -> None:
    format_, before, after = format_of(**FORMATS[name]), of_struct(7, "x"), of_struct(8, "x", "y")
    found = RetainedChanges(format_, after.schema).rows(sent_by(format_, before))
    assert found.column("at").to_pylist() == [None, {"x": 7, "y": None}]


@pytest.mark.parametrize("name", FORMATS)
def test_plain_deletes_have_the_columns_of_their_keys_inside_of_structs(name) -> None:
    at = pa.struct({"x": pa.int64(), "deep": pa.struct({"er": pa.string()}), "y": pa.int64()})
    row = {"x": 7, "deep": {"er": "a"}, "y": 1}
    staged = Staged(
        number=7, table=pa.schema({"at": at, "n": pa.int64()}), parts=[[("DELETE", row, 3)]],
        options={"identity": ("at.x", "at.deep.er")},
    )  # fmt: skip
    format_ = format_of(envelope="plain", **FORMATS[name])
    [found] = RetainedChanges(format_, staged.schema).rows(sent_by(format_, staged)).select(["at", "n"]).to_pylist()
    assert found == {"at": {"x": 7, "deep": {"er": "a"}, "y": None}, "n": None}


@pytest.mark.parametrize("name", FORMATS)
def test_keys_are_found_by_their_rows(name) -> None:
    format_ = format_of(**FORMATS[name])
    wanted = format_.keys(pa.RecordBatch.from_pydict({"id": pa.array([2], pa.int32())}))
    assert [format_.key(message) in wanted for message in sent_by(format_, STAGED)] == [False, True, False]


def test_messages_of_other_programs_are_no_changes() -> None:
    format_ = format_of()
    messages = [
        Foreign(b'{"id":1}', b'{"n":2}'),
        Misnumbered(b"{", b"{"),
        *sent_by(format_, STAGED),
        Foreign(None, None),
    ]
    assert [format_.key(each) for each in messages[:2]] == [None, None]
    [found] = format_.changes_as_written(messages, lambda _number: STAGED.schema, first_batch=0)
    assert found.equals(STAGED.rows_of(0))


@pytest.mark.parametrize("cut", [b"", b"\0", b"{", b"\0\0\0\0\1", b"\0\0\0\0\1\0\0\0\0\2\2"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_message_that_was_cut_is_named_with_its_batch(name, cut) -> None:
    format_ = format_of(**FORMATS[name])
    sent_by(format_, STAGED)
    with pytest.raises(TerminalError, match=r"^batch 7 in topic flights has messages that "):
        list(format_.changes_as_written([Sent(cut, cut)], lambda _number: STAGED.schema, first_batch=0))
    with pytest.raises(TerminalError, match=r"^batch 7 in topic flights has messages that "):
        format_.key(Sent(cut[:5], None))


ONE = Decimal("1.00")
PROMOTIONS = {
    "int": (pa.int32(), pa.int64(), 1, 1),
    "float": (pa.float32(), pa.float64(), 1.5, 1.5),
    "decimal": (pa.decimal128(10, 2), pa.decimal128(18, 2), ONE, ONE),
    "date": (pa.date32(), pa.timestamp("us"), date(2026, 1, 31), datetime(2026, 1, 31)),
}


@pytest.mark.parametrize("promotion", PROMOTIONS)
@pytest.mark.parametrize("envelope", ["debezium", "plain"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_promotion_that_changes_the_bytes_of_keys_is_known(name, envelope, promotion) -> None:
    before, after, *values = PROMOTIONS[promotion]
    format_ = format_of(envelope=envelope, **FORMATS[name])
    keys, types = [], []
    for kind, value in zip((before, after), values, strict=True):
        table = pa.schema([pa.field("id", kind, nullable=False)])
        staged = Staged(number=7, table=table, parts=[[("INSERT", value)]])
        keys.append(sent_by(format_, staged)[0].sent_key)
        types.append(fixed_types(staged.batch, is_avro=name == "avro"))
    assert (keys[0] == keys[1]) is (types[0] == types[1])


@pytest.mark.parametrize("envelope", ["debezium", "plain"])
@pytest.mark.parametrize("name", FORMATS)
def test_messages_are_read_by_the_schema_of_their_batch(name, envelope) -> None:
    renamed = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("airline", pa.string())])
    forgotten = Staged(number=6, parts=[[("INSERT", 3, "c")]])
    before = Staged(number=7, parts=[[("INSERT", 1, "a"), ("DELETE", 2, "b")]])
    after = Staged(number=8, parts=[[("INSERT", 2, "b")]], table=renamed)
    format_ = format_of(envelope=envelope, **FORMATS[name])
    schemas = {7: before.schema, 8: after.schema}
    messages = [message for each in (forgotten, before, after) for message in sent_by(format_, each)]
    first, second = format_.changes_as_written(messages, schemas.__getitem__, first_batch=7)
    assert (first.column("carrier").to_pylist()[0], second.column("airline").to_pylist()) == ("a", ["b"])
    assert (first.num_rows, second.num_rows) == (2, 1)


def test_an_avro_message_names_its_schema_as_registries_want_it() -> None:
    format_ = format_of(**FORMATS["avro"])
    [message] = sent_by(format_, Staged(number=7, parts=[[("INSERT", 1, "a")]]))
    assert message.sent_value[:1] == b"\x00"
    number = int.from_bytes(message.sent_value[1:5], "big")
    schema = json.loads(format_.registry._client.get_schema(number).schema_str)
    assert (schema["type"], schema["name"]) == ("record", "flights.nyc.flights.Envelope")
    assert format_.registry._client.get_subjects() == ["flights-key", "flights-value"]


def test_the_bytes_of_avro_messages_stay() -> None:
    """By hand from the specification of Avro: zigzag numbers, and the place in its union before each value."""
    format_ = format_of(envelope="plain", **FORMATS["avro"])
    [message] = sent_by(format_, Staged(number=7, parts=[[("INSERT", -65, "a")]]))
    assert message.sent_key == b"\x00\x00\x00\x00\x01" + b"\x02\x81\x01"
    change = [
        b"\x02\x0e", b"\x02\x0cINSERT", b"\x02\x00", b"\x02&1152921504606846983", b"\x0262026-11-22T03:04:05.678901Z"
    ]  # fmt: skip
    assert message.sent_value == b"".join([b"\x00\x00\x00\x00\x02", *change, b"\x81\x01", b"\x02\x02a"])
