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


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.timestamp("ns"), pa.list_(pa.uuid())], ids=str)
def test_a_type_that_spark_lacks_is_refused_by_name(kind: pa.DataType) -> None:
    said = f"column 'c' has type {kind}, which a DataFrame cannot hold: name the other ones in columns"
    with pytest.raises(UsageError, match=re.escape(said)):
        arrow_for_spark(pa.schema([("c", kind)]))
