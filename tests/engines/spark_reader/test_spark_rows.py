"""Types of Arrow that Spark lacks."""

import re
import uuid

import pyarrow as pa
import pytest

from icefloe.engines.spark_reader.spark_rows import arrow_for_spark, rows_for_spark, spark_schema
from icefloe.errors import UsageError


def test_uuids_are_text_also_in_a_slice() -> None:
    ids = [uuid.UUID(int=7), None, uuid.uuid5(uuid.NAMESPACE_DNS, "a"), uuid.UUID(int=2**128 - 1)]
    batch = pa.record_batch({"id": pa.array([each and each.bytes for each in ids], pa.uuid())})
    for start in range(4):
        [found] = rows_for_spark([batch.slice(start)])
        assert found["id"].to_pylist() == [each and str(each) for each in ids[start:]]


def test_nested_columns_have_the_offsets_of_spark() -> None:
    inner = pa.struct([("a", pa.large_list(pa.large_string())), ("b", pa.binary(3))])
    schema = pa.schema([pa.field("m", pa.map_(pa.large_string(), inner)), pa.field("at", pa.timestamp("us"))])
    batch = pa.record_batch([[[("k", {"a": ["x", None], "b": b"abc"})], None], [1, 2]], schema=schema)
    [found] = rows_for_spark([batch])
    assert found.to_pylist() == batch.to_pylist()
    assert found.schema == arrow_for_spark(schema)
    assert spark_schema(schema).simpleString() == (
        "struct<m:map<string,struct<a:array<string>,b:binary>>,at:timestamp_ntz>"
    )


def test_uuids_inside_of_other_values_are_text_also_in_a_slice() -> None:
    one, text = uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))

    def kind_of(leaf: pa.DataType) -> pa.DataType:
        some = pa.large_list(pa.field("element", leaf, nullable=False))
        by = pa.map_(pa.field("key", leaf, nullable=False), pa.field("value", leaf))
        return pa.struct([pa.field("u", leaf), pa.field("all", some), pa.field("by", by)])

    def rows_of(value: object) -> list[object]:
        full = {"u": value, "all": [value, value], "by": [(value, None), (value, value)]}
        return [full, None, {"u": None, "all": None, "by": None}, {"u": value, "all": [], "by": []}, full]

    schema = pa.schema([pa.field("at", kind_of(pa.uuid())), pa.field("each", pa.large_list(kind_of(pa.uuid())))])
    stored = pa.array(rows_of(one), kind_of(pa.binary(16)))
    lists = pa.array([rows_of(one), None, [], rows_of(one), [None]], pa.large_list(kind_of(pa.binary(16))))
    batch = pa.record_batch([stored.cast(schema.field(0).type), lists.cast(schema.field(1).type)], schema=schema)
    expected = [
        {"at": at, "each": each}
        for at, each in zip(rows_of(text), [rows_of(text), None, [], rows_of(text), [None]], strict=True)
    ]
    for start in range(5):
        for length in (1, 2, 5):
            [found] = rows_for_spark([batch.slice(start, length)])
            assert found.to_pylist() == expected[start : start + length]
            assert found.schema == arrow_for_spark(schema)


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.timestamp("ns"), pa.list_(pa.time64("us"))], ids=str)
def test_a_type_that_spark_lacks_is_refused_by_name(kind: pa.DataType) -> None:
    said = f"column 'c' has type {kind}, which a DataFrame cannot hold: name the other ones in columns"
    with pytest.raises(UsageError, match=re.escape(said)):
        arrow_for_spark(pa.schema([("c", kind)]))
