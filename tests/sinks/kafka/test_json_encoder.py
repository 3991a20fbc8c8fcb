import json

import pytest

from icefloe.sinks.events import event_rows
from icefloe.sinks.kafka.message_format import Encoder
from sinks.kafka.staged_changes import Staged
from sinks.kafka.test_message_format import format_of

BATCH = Staged(
    number=7, parts=[[("UPDATE_BEFORE", 1, "a"), ("UPDATE_AFTER", 1, 'A"'), ("DELETE", 2, None), ("INSERT", 3, "c")]]
)
SOURCE = {
    "version": "0.1.0", "connector": "icefloe", "name": "flights", "ts_ms": 1795316645678, "snapshot": "false",
    "db": "nyc", "sequence": None, "ts_us": 1795316645678901, "ts_ns": 1795316645678901000, "table": "flights",
    "snapshot_id": str(2**60 + 7), "batch": 7, "ordinal": 0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _noon(monkeypatch):
    monkeypatch.setattr("icefloe.sinks.kafka.message_format.time_ns", lambda: 1_800_000_000_123_456_789)


def debezium(staged):
    encoder = Encoder(format_of(), staged.batch)
    [events] = event_rows([staged.rows_of(0)], rows_before=10)
    return encoder.encode(events)


def plain(staged):
    [events] = event_rows([staged.rows_of(0)])
    return Encoder(format_of(envelope="plain"), staged.batch).encode(events)


def test_an_update_a_delete_and_an_insert_are_envelopes_of_debezium() -> None:
    keys, values = debezium(BATCH)
    assert keys == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    times = {"ts_ms": 1800000000123, "ts_us": 1800000000123456, "ts_ns": 1800000000123456789}
    assert [json.loads(value) for value in values] == [
        {
            "before": before, "after": after, "source": SOURCE, "op": op, **times,
            "transaction": {"id": "7", "total_order": order, "data_collection_order": order},
        }
        for before, after, op, order in (
            ({"id": 1, "carrier": "a"}, {"id": 1, "carrier": 'A"'}, "u", 12),
            ({"id": 2, "carrier": None}, None, "d", 13),
            (None, {"id": 3, "carrier": "c"}, "c", 14),
        )
    ]  # fmt: skip


def test_hidden_columns_are_in_the_key_only() -> None:
    staged = Staged(number=7, parts=BATCH.parts, options={"selected": ("carrier",)})
    keys, values = debezium(staged)
    assert keys[2] == b'{"id":3}'
    assert json.loads(values[2])["after"] == {"carrier": "c"}


def test_a_truncation_names_the_table_and_no_row() -> None:
    value = json.loads(Encoder(format_of(), BATCH.batch).truncation() or b"")
    assert [value[name] for name in ("op", "before", "after", "transaction")] == ["t", None, None, None]
    assert value["source"] == SOURCE | {
        "ts_ms": 1800000000123, "ts_us": 1800000000123456, "ts_ns": 1800000000123456000, "snapshot_id": "2"
    }  # fmt: skip


def test_a_plain_delete_has_no_value_and_a_plain_update_is_the_row_after() -> None:
    keys, values = plain(BATCH)
    assert keys == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    change = {"_batch": 7, "_change_ordinal": 0, "_commit_snapshot_id": str(2**60 + 7)}
    change["_commit_timestamp"] = "2026-11-22T03:04:05.678901Z"
    assert [value and json.loads(value) for value in values] == [
        {**change, "_change_type": "UPDATE_AFTER", "id": 1, "carrier": 'A"'},
        None,
        {**change, "_change_type": "INSERT", "id": 3, "carrier": "c"},
    ]
