"""Documents and ids of rows of every type, pinned: readers and retries depend on each character."""

import json
import re
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.key_changes import document_ids
from icefloe.sinks.opensearch.delivery import bulk_lines
from icefloe.sinks.opensearch.indexes import field_mappings
from icefloe.sinks.opensearch.row_documents import (
    deletion_markers,
    documents,
    id_forms,
    rows_of_documents,
)

TEXTS = pa.large_list(pa.field("element", pa.large_string()))
SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()), ("int", pa.int32()), ("long", pa.int64()), ("float", pa.float32()),
        ("double", pa.float64()), ("decimal", pa.decimal128(38, 4)), ("date", pa.date32()), ("time", pa.time64("us")),
        ("moment", pa.timestamp("us")), ("instant", pa.timestamp("us", "UTC")), ("text", pa.large_string()),
        ("bytes", pa.large_binary()), ("fixed", pa.binary(2)), ("uuid", pa.uuid()), ("list", TEXTS),
        ("map", pa.map_(pa.large_string(), pa.int64())),
        ("struct", pa.struct([("a", pa.int32()), ("b", TEXTS), ("unknown", pa.null())])), ("unknown", pa.null()),
    ]
)  # fmt: skip
ROW = {
    "flag": True, "int": -7, "long": 2**53 + 1, "float": 0.5, "double": 1e100, "decimal": Decimal("12.3400"),
    "date": date(2026, 1, 31), "time": time(10, 0, 0, 1), "moment": datetime(2026, 1, 31, 10),
    "instant": datetime.fromisoformat("2026-01-31T10:00:00.000001+00:00"), "text": 'a "b" \\ \n \u0001 é \u2028 😀',
    "bytes": b"\x00\xff", "fixed": b"ab", "uuid": UUID(int=5), "list": ["x", None, '"'], "map": [("k", 1), ("l", None)],
    "struct": {"a": None, "b": [], "unknown": None}, "unknown": None,
}  # fmt: skip


def batch(*rows: dict[str, object], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if isinstance(field.type, pa.UuidType):
            stored = pa.array([each.bytes if isinstance(each, UUID) else None for each in values], pa.binary(16))
            columns.append(pa.ExtensionArray.from_storage(field.type, stored))
        else:
            columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def test_a_row_of_every_type_is_this_document() -> None:
    [found] = documents(batch(ROW)).to_pylist()
    assert json.loads(found) == {
        "flag": True, "int": -7, "long": 2**53 + 1, "float": 0.5, "double": 1e100, "decimal": "12.3400",
        "date": "2026-01-31", "time": "10:00:00.000001", "moment": "2026-01-31T10:00:00.000000",
        "instant": "2026-01-31T10:00:00.000001Z", "text": ROW["text"], "bytes": "AP8=", "fixed": "YWI=",
        "uuid": "00000000-0000-0000-0000-000000000005", "list": ["x", None, '"'],
        "map": [{"key": "k", "value": 1}, {"key": "l", "value": None}], "struct": {"a": None, "b": []},
    }  # fmt: skip


@pytest.mark.parametrize("start", [0, 1, 2])
def test_rows_come_back_from_their_documents(start: int) -> None:
    rows = batch(ROW, {}, {"list": [], "map": [], "text": "", "double": float("inf"), "float": 0.1}).slice(start)
    found = [json.loads(each) for each in documents(rows).to_pylist()]
    assert rows_of_documents(found, SCHEMA, index="flights").to_pylist() == rows.to_pylist()


def test_uuids_inside_of_other_values_come_back() -> None:
    text = "00000000-0000-0000-0000-000000000005"
    inner = pa.struct([("u", pa.uuid())])
    schema = pa.schema([("at", inner), ("all", pa.large_list(inner)), ("by", pa.map_(pa.string(), pa.uuid()))])
    source = {"at": {"u": text}, "all": [{"u": text}], "by": [{"key": "k", "value": text}]}
    found = rows_of_documents([source], schema, index="flights")
    assert [json.loads(each) for each in documents(found).to_pylist()] == [
        {"at": {"u": text}, "all": [{"u": text}], "by": [{"key": "k", "value": text}]}
    ]


EDITED = {
    "decimal": "n/a", "date": "n/a", "int": "n/a", "list": 7, "bytes": 7, "struct": "n/a", "map": [{}], "fixed": "AAAA",
}  # fmt: skip


@pytest.mark.parametrize("name", EDITED)
def test_a_value_that_somebody_edited_is_named_with_its_column(name: str) -> None:
    with pytest.raises(TerminalError, match=f"^column {name} of index flights has a value that its type "):
        rows_of_documents([{name: EDITED[name]}], SCHEMA, index="flights")


def test_a_float_that_is_no_number_is_text() -> None:
    values = pa.record_batch({"x": pa.array([float("nan"), float("-inf"), -0.0, None])})
    assert documents(values).to_pylist() == ['{"x":"NaN"}', '{"x":"-Infinity"}', '{"x":0}', '{"x":null}']


@pytest.mark.parametrize("kind", [pa.float32(), pa.int32(), pa.decimal128(9, 2)], ids=str)
def test_a_promotion_leaves_documents_and_ids_as_they_are(kind: pa.DataType) -> None:
    wider = {pa.float32(): pa.float64(), pa.int32(): pa.int64()}.get(kind, pa.decimal128(38, 2))
    narrow = pa.record_batch({"x": pa.array([1, 7], kind)})
    if kind == pa.float32():
        narrow = pa.record_batch({"x": pa.array([0.1, 1e-30], kind)})
    widened = pa.record_batch({"x": narrow.column("x").cast(wider)})
    assert documents(narrow).to_pylist() == documents(widened).to_pylist()
    assert document_ids(narrow, ["x"]).to_pylist() == document_ids(widened, ["x"]).to_pylist()
    assert id_forms(narrow.schema, ["x"]) == id_forms(widened.schema, ["x"])
    assert field_mappings(narrow.schema, []) == field_mappings(widened.schema, [])


def test_ids_are_these() -> None:
    keys = [name for name in SCHEMA.names if name not in {"list", "map", "struct", "unknown", "text"}]
    assert document_ids(batch(ROW), keys).to_pylist() == [
        (
            "4:true,2:-7,16:9007199254740993,3:0.5,6:1e+100,7:12.3400,10:2026-01-31,15:10:00:00.000001,"
            "26:2026-01-31T10:00:00.000000,27:2026-01-31T10:00:00.000001Z,4:AP8=,4:YWI=,"
            "36:00000000-0000-0000-0000-000000000005"
        )
    ]


def test_a_key_of_control_characters_makes_lines_of_json() -> None:
    ids = pa.array(['a"\\\x00\n', "b"], pa.large_string())
    index, delete = bulk_lines(ids, pa.array(["{}", None], pa.large_string()), 7).to_pylist()
    action, document, _ = index.split("\n")
    assert json.loads(action) == {"index": {"_id": 'a"\\\x00\n', "version": 7, "version_type": "external"}}
    assert document == "{}"
    assert json.loads(delete) == {"delete": {"_id": "b", "version": 7, "version_type": "external_gte"}}


def test_different_keys_have_different_ids() -> None:
    keys = [("a", "b"), ("a,1:b", ""), ("", "a,1:b"), ("a,", "b"), ("é", "b"), ("e", "b"), ("", "")]
    table = pa.record_batch({"x": [key[0] for key in keys], "y": [key[1] for key in keys]})
    assert len(set(document_ids(table, ["x", "y"]).to_pylist())) == len(keys)


def test_an_id_of_more_than_512_bytes_is_a_hash() -> None:
    table = pa.record_batch({"x": ["a" * 508, "a" * 509, "é" * 254, "é" * 255]})
    found = document_ids(table, ["x"]).to_pylist()
    assert [len(each.encode()) for each in found] == [512, 71, 512, 71]
    assert found[1] == "sha256:180a6c396302e57ef7d7ea9e4d66d17c864741fe114e9b8afc64fd5b046476a8"


@pytest.mark.parametrize("name", ["list", "map", "struct"])
def test_a_nested_value_is_no_key(name: str) -> None:
    with pytest.raises(TerminalError, match=f"identifier column {name} is of type"):
        id_forms(SCHEMA, [name])


def test_a_deletion_keeps_the_key_the_mark_and_the_time() -> None:
    rows = pa.record_batch({"place": [{"id": 1, "at": {"x": "a"}}], "n": [2], "name": ["Ada"]})
    moment = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    assert deletion_markers(rows, moment, ["place.id", "n", "place.at.x"]).to_pylist() == [
        '{"place":{"id":1,"at":{"x":"a"}},"n":2,"_deleted":true,"_deleted_at":"2023-11-14T22:13:20.000000Z"}'
    ]


@pytest.mark.parametrize(
    ("schema", "named"),
    [(pa.schema([(name, pa.int32())]), name) for name in ("_deleted", "_id", "", ".a", "a..b")]
    + [(pa.schema([("list", pa.list_(pa.struct([(name, pa.int32())])))]), "list") for name in ("", ".a")],
)
def test_a_column_with_a_name_that_no_field_can_have_is_refused(schema: pa.Schema, named: str) -> None:
    with pytest.raises(TerminalError, match=f"column {re.escape(named)} has a name that the opensearch sink cannot"):
        field_mappings(schema, [])


def test_a_name_inside_a_column_may_be_reserved_or_have_dots() -> None:
    inner = pa.struct([(name, pa.int32()) for name in ("_id", "a.b", "a.")])
    assert field_mappings(pa.schema([("list", pa.list_(inner))]), [])["list"]


def test_years_that_python_does_not_have_are_in_documents_and_in_ids() -> None:
    schema = pa.schema([("date", pa.date32()), ("instant", pa.timestamp("us", "UTC"))])
    rows = pa.RecordBatch.from_pylist(
        [{"date": 2**31 - 1, "instant": 2**63 - 1}, {"date": -719_163, "instant": 0}], schema
    )
    found = [json.loads(each) for each in documents(rows).to_pylist()]
    assert found == [
        {"date": "5881580-07-11", "instant": "294247-01-10T04:00:54.775807Z"},
        {"date": "0000-12-31", "instant": "1970-01-01T00:00:00.000000Z"},
    ]
    assert document_ids(rows, ["date"]).to_pylist() == ["13:5881580-07-11", "10:0000-12-31"]
    assert rows_of_documents(found, schema, index="flights").equals(rows)
