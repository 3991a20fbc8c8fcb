"""Columns whose names are one in Avro are refused: one value would take the place of the other."""

from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.kafka.schemas import record_schema

TWO = [pa.field("a-b", pa.int32()), pa.field("a_b", pa.int32())]


@pytest.mark.parametrize("table", [pa.schema(TWO), pa.schema({"inner": pa.struct(TWO)})], ids=["table", "struct"])
def test_two_columns_of_one_name_are_refused(table: pa.Schema) -> None:
    with pytest.raises(TerminalError, match="columns a-b and a_b are both a_b in Avro: rename one of them"):
        record_schema(table, "t.Value")


def test_two_structs_of_one_name_are_refused() -> None:
    nested = pa.struct({"b": pa.struct({"x": pa.int32()})})
    table = pa.schema({"a": nested, "a.b": pa.struct({"y": pa.int32()})})
    with pytest.raises(TerminalError, match="two structs are both"):
        record_schema(table, "t.Value")


def test_a_struct_may_be_mentioned_twice() -> None:
    image = pa.struct({"id": pa.int64()})
    names = {"t.Envelope.before": "t.Value", "t.Envelope.after": "t.Value"}
    made: Any = record_schema(pa.schema({"before": image, "after": image}), "t.Envelope", names)
    assert made["fields"][1]["type"] == ["null", "t.Value"]
