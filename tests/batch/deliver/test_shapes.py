"""Tables of required, nested and unusual columns in every shape of files, which `verify` reads back."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType, UUIDType

from support.pipelines.workspace import Outcome, Workspace, icefloe

AT = StructType(NestedField(4, "x", LongType(), required=True), NestedField(5, "trace", UUIDType(), required=False))
TABLE = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "key", UUIDType(), required=False),
    NestedField(3, "at", AT, required=False),
    identifier_field_ids=[1],
)
ARROW = pa.schema([
    pa.field("id", pa.int64(), nullable=False),
    pa.field("key", pa.uuid()),
    pa.field("at", pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("trace", pa.uuid())])),
])  # fmt: skip


@pytest.fixture
def lab(tmp_path: Path) -> Workspace:
    found = Workspace.create(tmp_path, TABLE)
    found.table.append(rows({1: 7, 2: None, 3: 9}))
    return found


def rows(of: dict[int, int | None]) -> pa.Table:
    keys = pa.array([UUID(int=number).bytes for number in of], pa.binary(16)).cast(pa.uuid())
    xs = pa.array(of.values(), pa.int64())
    filled = xs.fill_null(0)
    at = pa.StructArray.from_arrays([filled, keys], fields=list(ARROW.field("at").type), mask=xs.is_null())
    return pa.table([pa.array(of, pa.int64()), keys, at], schema=ARROW)


def command(lab: Workspace, name: str, *arguments: object, **sink: Any) -> Outcome:
    whole = {"type": "files", "path": lab.output().as_uri(), **sink}
    return icefloe(name, lab.pipeline(sink=whole, identifier_columns=None), *arguments)


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
@pytest.mark.parametrize("shape", ["icefloe", "delta", "debezium"])
def test_required_and_nested_columns_are_delivered_and_verified(lab: Workspace, shape: str, format_: str) -> None:
    form = {"columns_as": shape, "format": format_, "order_by": ["id"]}
    assert command(lab, "run", **form).code == 0
    lab.table.overwrite(rows({1: None, 4: 5}), overwrite_filter=EqualTo(term="id", value=1))
    lab.table.delete(EqualTo(term="id", value=3))
    done = command(lab, "run", **form)
    assert done.code == 0, done.err
    assert fields(lab, 1) == [("id", 1, True), ("key", 2, False), ("at", 3, False)]
    found = command(lab, "verify", "--json", **form)
    assert (found.code, found.document["is_equal"], found.document["rows"]) == (0, True, 3), found.err


def fields(lab: Workspace, batch: int) -> list[tuple[str, int, bool]]:
    return [(each["name"], each["id"], each["required"]) for each in lab.manifest(batch)["columns"]["fields"]]


def test_a_manifest_has_the_columns_that_are_shown(lab: Workspace) -> None:
    whole = {"type": "files", "path": lab.output().as_uri(), "order_by": ["at.x"]}
    done = icefloe("run", lab.pipeline(sink=whole, identifier_columns=None, columns=["at.x"]))
    assert done.code == 0, done.err
    # The identity is staged, and not shown.
    assert fields(lab, 0) == [("at", 3, False)]
    [at] = lab.manifest(0)["columns"]["fields"]
    assert [each["name"] for each in at["type"]["fields"]] == ["x"]
