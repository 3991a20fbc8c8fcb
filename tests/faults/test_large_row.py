"""A row of 64 MB, from the table through the shuffle to the sink."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from support.pipelines.replay import replayed, table_rows
from support.pipelines.workspace import SCHEMA, Workspace, icefloe

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

COLUMNS = ("id", "value", "word")


def row(number: int, value: float, letter: str) -> pa.Table:
    return pa.table({"id": [number], "value": [value], "word": [letter * 64_000_000]}, schema=SCHEMA)


@pytest.mark.parametrize("memory", ["1GiB", "64MiB"])
def test_a_row_of_64_mb_is_loaded_updated_and_deleted(tmp_path: Path, memory: str) -> None:
    workspace = Workspace.create(tmp_path)
    workspace.append(*range(10))
    workspace.table.append(row(100, 1.0, "a"))
    pipeline = workspace.pipeline(shuffle={"memory_bytes": memory, "partitions": 4})
    assert icefloe("run", pipeline).code == 0
    workspace.table.overwrite(row(100, 2.0, "b"), overwrite_filter=EqualTo("id", 100))  # type: ignore[call-arg]
    assert icefloe("run", pipeline).document["update_after"] == 1
    workspace.delete(100)
    workspace.update(5, value=7.0)
    assert icefloe("run", pipeline).document["delete"] == 1
    place = tmp_path / "events"
    held = replayed(place / "changes", place / "storage/checkpoints/events", COLUMNS)
    assert held == table_rows(workspace.table, COLUMNS)
    assert icefloe("verify", pipeline).code == 0
