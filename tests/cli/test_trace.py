"""`icefloe trace` shows what became of one row."""

import json
import math
import shutil
from collections.abc import Iterator
from datetime import time
from pathlib import Path
from typing import Any, Final, NoReturn
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DoubleType, NestedField, TimeType, UUIDType

from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.registered import registered_sinks

ID: Final = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Workspace]:
    with registered_sinks():
        yield Workspace.create(tmp_path)


def run(lab: Workspace, **keys: Any) -> None:
    done = icefloe("run", lab.pipeline(engine="local", **keys))
    assert (done.code, done.err) == (0, "")


def trace(lab: Workspace, *key: str, **keys: Any) -> Outcome:
    return icefloe("trace", lab.pipeline(engine="local", **keys), *key, "--json")


def three_batches(lab: Workspace, **keys: Any) -> None:
    lab.append(1, 2, 3)
    run(lab, **keys)
    lab.update(2, value=7.0)
    run(lab, **keys)
    lab.delete(2, 3)
    lab.append(2)
    run(lab, **keys)


def told(found: Outcome) -> list[tuple[int | None, str, float]]:
    assert (found.code, found.err) == (0, "")
    assert found.document["notes"] == []
    return [(each["batch"], each["change_type"], each["row"]["value"]) for each in found.document["changes"]]


CHANGES = [
    (0, "INSERT", 1.0),
    (1, "UPDATE_BEFORE", 1.0),
    (1, "UPDATE_AFTER", 7.0),
    (2, "DELETE", 7.0),
    (2, "INSERT", 1.0),
]


@pytest.mark.parametrize("sink", [None, {"type": "index"}, {"type": "log"}], ids=str)
def test_every_change_of_a_row_is_shown(lab: Workspace, sink: dict[str, str] | None) -> None:
    keys = {} if sink is None else {"sink": sink}
    three_batches(lab, **keys)
    found = trace(lab, "id=2", **keys)
    assert told(found) == CHANGES
    document = found.document
    assert document["table_rows"] == document["sink_rows"] == [{"id": 2, "value": 1.0, "word": "word 2"}]
    assert {each["commit_snapshot_id"] for each in document["changes"][1:]} <= {
        str(snapshot.snapshot_id) for snapshot in lab.table.metadata.snapshots
    }
    gone = trace(lab, "3", **keys).document
    assert (gone["changes"][-1]["change_type"], gone["table_rows"], gone["sink_rows"]) == ("DELETE", [], [])


def test_changes_whose_files_are_gone_are_computed_again(lab: Workspace) -> None:
    three_batches(lab)
    for folder in lab.output().glob("batch=*"):
        shutil.rmtree(folder)
    assert told(trace(lab, "id=2")) == CHANGES


def test_a_commit_that_is_not_delivered_yet_is_pending(lab: Workspace) -> None:
    three_batches(lab)
    lab.update(1, value=4.0)
    document = trace(lab, "id=1").document
    assert [(each["change_type"], each["row"]["value"]) for each in document["pending"]] == [
        ("UPDATE_BEFORE", 1.0),
        ("UPDATE_AFTER", 4.0),
    ]
    assert (document["table_rows"][0]["value"], document["sink_rows"][0]["value"]) == (4.0, 1.0)


def keyed_by_other_types(folder: Path) -> Workspace:
    """A table of one row, whose key has a UUID, a time and a large number, whose name needs quotes."""
    fields = [
        NestedField(1, "id", UUIDType()),
        NestedField(2, "at", TimeType()),
        NestedField(3, "order-id", DoubleType()),
        NestedField(4, "values", DoubleType()),
        NestedField(5, "bytes", BinaryType()),
    ]
    made = Workspace.create(folder, Schema(*fields))
    made.table.append(
        pa.Table.from_pylist(
            [{"id": UUID(ID).bytes, "at": time(3, 4, 5), "order-id": 1e16, "values": math.nan, "bytes": b"ab"}],
            schema=made.table.schema().as_arrow(),
        )
    )
    return made


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def test_keys_of_any_type_that_a_filter_has_find_the_row_and_its_json_has_no_bare_nan(tmp_path: Path) -> None:
    made = keyed_by_other_types(tmp_path)
    keys = {"identifier_columns": ["id", "at", "order-id"]}
    run(made, **keys)
    found = trace(made, f"id={ID}", "at=03:04:05", "order-id=1e16", **keys)
    assert (found.code, found.err) == (0, "")
    document = json.loads(found.out, parse_constant=refuse_constant)
    row = {"id": ID, "at": "03:04:05", "order-id": 1e16, "values": "NaN", "bytes": "b'ab'"}
    assert document["table_rows"] == document["sink_rows"] == [document["changes"][0]["row"]] == [row]
    for folder in made.output().glob("batch=*"):
        shutil.rmtree(folder)
    again = trace(made, f"id={ID}", "at=03:04:05", "order-id=1e16", **keys).document
    assert [change["row"] for change in again["changes"]] == [row]


@pytest.mark.parametrize("key", ["id=many", "word=a"])
def test_a_key_that_names_no_row_is_a_usage_error(lab: Workspace, key: str) -> None:
    pipeline = lab.pipeline(engine="local")
    refused = icefloe("trace", pipeline, "1")
    assert (refused.code, "has no batch yet" in refused.sentence) == (2, True)
    lab.append(1)
    run(lab)
    refused = icefloe("trace", pipeline, key)
    assert (refused.code, f"{key} is no value of the type int64" in refused.sentence) == (2, True)
    assert "has no row with id=99" in icefloe("trace", pipeline, "99").out
    shown = icefloe("trace", pipeline, "1").out
    assert ("INSERT" in shown, "in the sink" in shown) == (True, True)
