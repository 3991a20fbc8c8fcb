"""Golden texts of every type: the table of docs/sinks.md, from Debezium's and Kafka Connect's documentation."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.json_texts import JsonForm, json_texts, parsed_rows, parser, row_texts

NOON = datetime(2026, 11, 22, 12, 0, 0, 5)
NANOS = 1795348800000005001
READABLE, DEBEZIUM = JsonForm.READABLE, JsonForm.DEBEZIUM
LONG = Decimal("-9999999999999999999999999999999999.9999")

GOLDEN = [
    (pa.bool_(), True, "true", "true"),
    (pa.int32(), -5, "-5", "-5"),
    (pa.int64(), 2**63 - 1, "9223372036854775807", "9223372036854775807"),
    (pa.float32(), 0.1, "0.1", "0.1"),
    (pa.float64(), 1e300, "1e+300", "1e+300"),
    (pa.float64(), float("-inf"), '"-Infinity"', '"-Infinity"'),
    (pa.string(), 'a"\\\n\t\x01é', '"a\\"\\\\\\n\\t\\u0001é"', '"a\\"\\\\\\n\\t\\u0001é"'),
    (pa.large_string(), "", '""', '""'),
    (pa.binary(), b"\x00\xff", '"AP8="', '"AP8="'),
    (pa.binary(2), b"ab", '"YWI="', '"YWI="'),
    (pa.decimal128(9, 2), Decimal("-1.50"), '"-1.50"', '"-1.50"'),
    (pa.decimal128(38, 4), LONG, f'"{LONG}"', f'"{LONG}"'),
    (pa.date32(), date(2026, 11, 22), '"2026-11-22"', "20779"),
    (pa.date32(), 2932897, '"10000-01-01"', "2932897"),
    (pa.date32(), -(2**31), '"-5877641-06-23"', str(-(2**31))),
    (pa.time64("us"), time(1, 2, 3, 4), '"01:02:03.000004"', "3723000004"),
    (pa.timestamp("us"), NOON, '"2026-11-22T12:00:00.000005"', "1795348800000005"),
    (pa.timestamp("us", "UTC"), NOON.replace(tzinfo=UTC), *(['"2026-11-22T12:00:00.000005Z"'] * 2)),
    (pa.timestamp("us"), 2**63 - 1, '"294247-01-10T04:00:54.775807"', str(2**63 - 1)),
    (pa.timestamp("us", "UTC"), 2**63 - 1, *(['"294247-01-10T04:00:54.775807Z"'] * 2)),
    (pa.timestamp("ns"), NANOS, '"2026-11-22T12:00:00.000005001"', str(NANOS)),
    (pa.timestamp("ns", "UTC"), NANOS, *(['"2026-11-22T12:00:00.000005001Z"'] * 2)),
    (pa.uuid(), UUID(int=5).bytes, *(['"00000000-0000-0000-0000-000000000005"'] * 2)),
    (pa.struct({"d": pa.date32(), "n": pa.int32()}), {"d": 1, "n": None},
     '{"d":"1970-01-02","n":null}', '{"d":1,"n":null}'),
    (pa.list_(pa.date32()), [1, None], '["1970-01-02",null]', "[1,null]"),
    (pa.list_(pa.int32()), [], "[]", "[]"),
    (pa.map_(pa.string(), pa.date32()), [("k", 1)], '{"k":"1970-01-02"}', '{"k":1}'),
    (pa.map_(pa.int32(), pa.list_(pa.string())), [(1, ["v"])], '[[1,["v"]]]', '[[1,["v"]]]'),
]  # fmt: skip
IDS = [f"{kind}" for kind, *_ in GOLDEN]


@pytest.mark.parametrize(("kind", "value", "readable", "debezium"), GOLDEN, ids=IDS)
def test_each_type_has_its_text(kind, value, readable, debezium) -> None:
    # Slices and missing values around it: offsets of nested types are not at 0 then.
    column = pa.array([value, None, value, None, value], kind).slice(1, 3)
    assert json_texts(column, READABLE, name="c").to_pylist() == ["null", readable, "null"]
    assert json_texts(column, DEBEZIUM, name="c").to_pylist() == ["null", debezium, "null"]


@pytest.mark.parametrize("form", [READABLE, DEBEZIUM])
@pytest.mark.parametrize(("kind", "value", "readable", "debezium"), GOLDEN, ids=IDS)
def test_each_text_is_read_back_as_its_value(kind, value, readable, debezium, form) -> None:
    column = pa.array([value, None], kind)
    values = [parser(kind, form)(json.loads(text)) for text in json_texts(column, form, name="c").to_pylist()]
    assert pa.array(values, kind).equals(column)


def test_not_a_number_is_a_text() -> None:
    assert json_texts(pa.array([float("nan")]), DEBEZIUM, name="c").to_pylist() == ['"NaN"']


def test_a_type_without_a_text_is_refused_with_its_column() -> None:
    with pytest.raises(TerminalError, match=r"^column wait has type month_day_nano_interval"):
        json_texts(pa.array([], pa.month_day_nano_interval()), DEBEZIUM, name="wait")


@pytest.mark.parametrize("form", [JsonForm.READABLE, JsonForm.DEBEZIUM])
@pytest.mark.parametrize("of", [
    lambda kind: pa.struct([pa.field("a", kind, nullable=False), pa.field("b", pa.list_(kind))]),
    pa.list_, pa.large_list, lambda kind: pa.map_(pa.string(), kind), lambda kind: pa.map_(kind, kind),
])  # fmt: skip
def test_uuids_inside_of_other_types_come_back(form: JsonForm, of: Callable[[pa.DataType], pa.DataType]) -> None:
    uuids = pa.array([UUID(int=5).bytes, UUID(int=2**127).bytes], pa.binary(16))
    stored, kind = of(pa.binary(16)), of(pa.uuid())
    first, second = uuids.to_pylist()
    value: object = [first, second]
    if pa.types.is_struct(kind):
        value = {"a": first, "b": [second, None]}
    if pa.types.is_map(kind):
        value = [(first if kind.key_type == pa.uuid() else "x", second)]
    rows = pa.RecordBatch.from_arrays([pa.array([value, None], stored).cast(kind)], ["c"])
    parse = parser(pa.struct(list(rows.schema)), form)
    found = parsed_rows([parse(json.loads(text)) for text in row_texts(rows, form).to_pylist()], rows.schema)
    assert found.equals(rows)
