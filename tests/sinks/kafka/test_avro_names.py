"""Columns whose names are one in Avro are refused: one value would take the place of the other."""

from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.kafka.schemas import ConnectSchema, avro_schema, struct_schema

TWO = [pa.field("a-b", pa.int32()), pa.field("a_b", pa.int32())]


@pytest.mark.parametrize("table", [pa.schema(TWO), pa.schema({"inner": pa.struct(TWO)})], ids=["table", "struct"])
def test_two_columns_of_one_name_are_refused(table: pa.Schema) -> None:
    with pytest.raises(TerminalError, match="columns a-b and a_b are both a_b in Avro: rename one of them"):
        avro_schema(struct_schema(table, name="t.Value"))


def test_two_structs_of_one_name_are_refused() -> None:
    nested = pa.struct({"b": pa.struct({"x": pa.int32()})})
    table = pa.schema({"a": nested, "a.b": pa.struct({"y": pa.int32()})})
    with pytest.raises(TerminalError, match="two structs are both"):
        avro_schema(struct_schema(table, name="t.Value"))


def test_a_struct_may_be_mentioned_twice() -> None:
    image = struct_schema(pa.schema({"id": pa.int64()}), name="t.Value", optional=True)
    fields: list[ConnectSchema] = [{**image, "field": "before"}, {**image, "field": "after"}]
    made: Any = avro_schema({"type": "struct", "optional": False, "name": "t.Envelope", "fields": fields})
    assert made["fields"][1]["type"] == ["null", "t.Value"]
