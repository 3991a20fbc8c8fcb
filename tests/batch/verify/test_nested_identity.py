"""`icefloe verify` and `trace` of files whose identifier columns are inside of a struct."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, NestedField, StructType

from batch.verify.verified_sinks import VerifiedSinks
from support.pipelines.workspace import icefloe
from support.tables.events import rows

AT = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.int64())])
KEYS: dict[str, Any] = {"changes": "append_only", "identifier_columns": ["at.x"]}


def with_places(*ids: int) -> pa.Table:
    return rows(ids).append_column("at", pa.array([{"x": each, "y": 2 * each} for each in ids], AT))


@pytest.fixture
def placed(lab: VerifiedSinks) -> VerifiedSinks:
    """The table has a struct, and four rows of two batches are in files."""
    with lab.table.update_schema() as update:
        update.add_column("at", StructType(NestedField(101, "x", LongType()), NestedField(102, "y", LongType())))
    for ids in ((1, 2), (3, 4)):
        lab.table.append(with_places(*ids))
        lab.deliver("files", **KEYS)
    return lab


def test_keys_inside_of_a_struct_are_compared(placed: VerifiedSinks) -> None:
    placed.require_equal("files", rows=4, **KEYS)


def test_a_row_is_traced_by_a_key_inside_of_a_struct(placed: VerifiedSinks) -> None:
    pipeline = placed.pipeline(sink=placed.sink("files"), engine="local", **KEYS)
    traced = icefloe("trace", pipeline, "at.x=3", "--json")
    assert (traced.code, traced.err) == (0, "")
    [row] = traced.document["sink_rows"]
    assert traced.document["table_rows"] == [row]
    assert (row["id"], row["at"]) == (3, {"x": 3, "y": 6})
