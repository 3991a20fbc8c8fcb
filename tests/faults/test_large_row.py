"""A row of 64 MB, from the table through the shuffle to the sink, in a process that has memory for a task."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from support.limited import icefloe_within
from support.pipelines.replay import replayed, table_rows
from support.pipelines.workspace import Workspace, icefloe
from support.tables.events import SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

COLUMNS = ("id", "value", "word")


def row(number: int, value: float, letter: str) -> pa.Table:
    return pa.table({"id": [number], "value": [value], "word": [letter * 64_000_000]}, schema=SCHEMA)


def icefloe_anywhere(memory_bytes: int, *arguments: object) -> Any:
    """The JSON that a command prints, without a limit: with little memory, a row takes more than a task should."""
    return icefloe(*arguments, "--json").document


@pytest.mark.parametrize(("memory_bytes", "command"), [(1 << 30, icefloe_within), (64 << 20, icefloe_anywhere)])
def test_a_row_of_64_mb_is_loaded_updated_and_deleted(
    tmp_path: Path, memory_bytes: int, command: Callable[..., Any]
) -> None:
    workspace = Workspace.create(tmp_path)
    workspace.append(*range(10))
    workspace.table.append(row(100, 1.0, "a"))
    pipeline = workspace.pipeline(shuffle={"memory_bytes": f"{memory_bytes >> 20}MiB", "partitions": 4})
    assert command(memory_bytes, "run", pipeline)["insert"] == 11
    workspace.table.overwrite(row(100, 2.0, "b"), overwrite_filter=EqualTo("id", 100))  # type: ignore[call-arg]
    assert command(memory_bytes, "run", pipeline)["update_after"] == 1
    workspace.delete(100)
    workspace.update(5, value=7.0)
    assert command(memory_bytes, "run", pipeline)["delete"] == 1
    place = tmp_path / "events"
    held = replayed(place / "changes", place / "storage/checkpoints/events", COLUMNS)
    assert held == table_rows(workspace.table, COLUMNS)
    assert icefloe("verify", pipeline).code == 0
