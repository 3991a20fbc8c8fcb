"""A row of 64 MB, from the table through the shuffle to the sink, in a process with memory for one task."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from support.limited import icefloe_within, run_within
from support.pipelines.replay import replayed, table_rows
from support.pipelines.workspace import Workspace, icefloe
from support.tables.events import SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

COLUMNS = ("id", "value", "word")


def row(number: int, value: float, letter: str) -> pa.Table:
    return pa.table({"id": [number], "value": [value], "word": [letter * 64_000_000]}, schema=SCHEMA)


def test_a_row_of_64_mb_is_refused_with_the_memory_that_it_needs_and_delivered_with_that(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    workspace.append(*range(10))
    workspace.table.append(row(100, 1.0, "a"))
    needed_bytes = refused(workspace, memory_bytes=64 << 20)
    pipeline = written(workspace, memory_bytes=needed_bytes)
    assert icefloe_within(needed_bytes, "run", pipeline)["insert"] == 11
    workspace.table.overwrite(row(100, 2.0, "b"), overwrite_filter=EqualTo(term="id", value=100))
    assert refused(workspace, memory_bytes=256 << 20) == needed_bytes
    written(workspace, memory_bytes=needed_bytes)
    assert icefloe_within(needed_bytes, "run", pipeline)["update_after"] == 1
    workspace.delete(100)
    workspace.update(5, value=7.0)
    assert icefloe_within(needed_bytes, "run", pipeline)["delete"] == 1
    place = tmp_path / "events"
    held = replayed(place / "changes", place / "storage/checkpoints/events", COLUMNS)
    assert held == table_rows(workspace.table, COLUMNS)
    assert icefloe("verify", pipeline).code == 0


def written(workspace: Workspace, *, memory_bytes: int) -> Path:
    """The pipeline file with that much memory for a task."""
    return workspace.pipeline(shuffle={"memory_bytes": f"{memory_bytes >> 20}MiB", "partitions": 4})


def refused(workspace: Workspace, *, memory_bytes: int) -> int:
    """The memory that is asked for by a run that has too little."""
    done = run_within(memory_bytes, "run", written(workspace, memory_bytes=memory_bytes))
    assert done.returncode == 65, done.stderr
    found = re.search(r"has a row of 61\.0 MiB, which needs shuffle\.memory_bytes: (\d+)MiB", done.stderr)
    assert found, done.stderr
    return int(found[1]) << 20
