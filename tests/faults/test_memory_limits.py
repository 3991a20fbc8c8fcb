"""A huge deletion vector, row and identity, in a process that has memory for a task, one core, and not more."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import ManifestContent, ManifestFile, write_manifest_list
from pyroaring import BitMap64

from icefloe.flow import Phase
from support.fakes.rest_server import rest_server
from support.pipelines.replay import replayed, table_rows
from support.pipelines.workshop import Workshop
from support.pipelines.workspace import ROOT, Workspace, icefloe
from support.tables.avro_writing import record, write_avro
from support.tables.events import SCHEMA
from support.tables.written_deletes import write_deletion_vector

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

ROWS: Final = 101_000_000
EVERY: Final = 1_000
"""One row of so many lives, so that no run of deleted positions is long."""
GROUP_ROWS: Final = 1_010_000
MEMORY_BYTES: Final = 64 << 20
ENTRY: Final = record(
    ("status", "int", 0), ("snapshot_id", ["null", "long"], 1), ("sequence_number", ["null", "long"], 3),
    ("file_sequence_number", ["null", "long"], 4),
    ("data_file", record(
        ("content", "int", 134), ("file_path", "string", 100), ("file_format", "string", 101),
        ("partition", {"type": "record", "name": "r102", "fields": []}, 102), ("record_count", "long", 103),
        ("file_size_in_bytes", "long", 104), ("referenced_data_file", ["null", "string"], 143),
        ("content_offset", ["null", "long"], 144), ("content_size_in_bytes", ["null", "long"], 145), name="r2",
    ), 2), name="manifest_entry",
)  # fmt: skip


def write_rows(path: Path) -> None:
    """A Parquet file of equal rows in each row group: a few kilobytes for 100 million rows."""
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for group in range(ROWS // GROUP_ROWS):
            columns = [pa.repeat(pa.scalar(value, field.type), GROUP_ROWS)
                       for value, field in zip((group, 1.5, "word"), SCHEMA, strict=True)]  # fmt: skip
            writer.write_table(pa.table(columns, schema=SCHEMA), row_group_size=GROUP_ROWS)


def deleted_positions(lives: int = 0) -> BitMap64:
    """All but one of each EVERY positions.

    Args:
        lives: which of them.
    """
    positions = BitMap64()
    for start in range(0, ROWS, EVERY):
        positions.add_range(start, start + EVERY)
        positions.discard(start + lives)
    return positions


class Lake:
    """The table ``db.events`` with one large file, and deletion vectors that no writer of PyIceberg makes."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace.create(folder)
        self._file = folder / "warehouse/db/events/data/large.parquet"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_rows(self._file)
        self.workspace.table.add_files([f"file://{self._file}"])
        location = self.workspace.table.metadata_location.removeprefix("file://")
        self._folder = Path(location).parent
        self.metadata: dict[str, Any] = json.loads(Path(location).read_bytes())

    def delete(self, *, lives: int, replaced: int | None = None) -> None:
        """Puts a deletion vector into the newest snapshot, or into a new one if it replaces an earlier one."""
        [first] = self.workspace.table.metadata.snapshots
        entries = [self._entry(1, lives)] + ([] if replaced is None else [self._entry(2, replaced)])
        number = 1 if replaced is None else 2
        manifest, manifest_list = (self._folder / f"{name}-{number}.avro" for name in ("deletes", "list"))
        write_avro(manifest, ENTRY, entries)
        snapshot_id = first.snapshot_id + number - 1
        described = ManifestFile.from_args(
            _table_format_version=2, manifest_path=f"file://{manifest}", manifest_length=manifest.stat().st_size,
            partition_spec_id=0, content=ManifestContent.DELETES, sequence_number=number, min_sequence_number=number,
            added_snapshot_id=snapshot_id, added_files_count=1, existing_files_count=0,
            deleted_files_count=len(entries) - 1, added_rows_count=1, existing_rows_count=0, deleted_rows_count=0,
            partitions=[],
        )  # fmt: skip
        io = self.workspace.table.io
        output = io.new_output(f"file://{manifest_list}")
        with write_manifest_list(2, output, snapshot_id, None, number, "deflate") as manifests:
            manifests.add_manifests([*first.manifests(io), described])
        self._show(snapshot_id, number, f"file://{manifest_list}")

    def _show(self, snapshot_id: int, number: int, manifest_list: str) -> None:
        newest = self.metadata["snapshots"][0] | {"manifest-list": manifest_list, "snapshot-id": snapshot_id}
        if number == 1:
            self.metadata["snapshots"] = [newest]
            return
        at = newest["timestamp-ms"] + 1
        summary = {"operation": "delete"}
        more = {
            "parent-snapshot-id": snapshot_id - 1,
            "sequence-number": number,
            "timestamp-ms": at,
            "summary": summary,
        }
        self.metadata["snapshots"].append(newest | more)
        self.metadata["snapshot-log"].append({"snapshot-id": snapshot_id, "timestamp-ms": at})
        self.metadata |= {"current-snapshot-id": snapshot_id, "last-sequence-number": number, "last-updated-ms": at}
        self.metadata["refs"]["main"]["snapshot-id"] = snapshot_id

    def _entry(self, status: int, lives: int) -> tuple[Any, ...]:
        path = self._folder.parent / f"data/vector-{lives}.puffin"
        written = write_deletion_vector(path, deleted_positions(lives), data_file=f"file://{self._file}")
        assert written.record_count > 100_000_000
        null = (0, None)
        file = (
            1, f"file://{path}", "PUFFIN", (), written.record_count, path.stat().st_size, (1, f"file://{self._file}"),
            (1, written.content_offset), (1, written.content_size_bytes),
        )  # fmt: skip
        number = (1, 1) if status == 2 else null
        return (status, null, number, number, file)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("large"))


def test_a_load_and_a_replaced_vector_of_100_million_positions_take_the_memory_of_a_task(lake: Lake) -> None:
    workspace = lake.workspace
    lake.delete(lives=0)
    shuffle = {"memory_bytes": f"{MEMORY_BYTES >> 20}MiB", "partitions": 4}

    def run() -> Any:
        with rest_server(lake.metadata, workspace.table.metadata_location) as uri:
            pipeline = workspace.pipeline(
                catalog={"type": "rest", "uri": uri}, shuffle=shuffle, identifier_columns=None
            )
            return icefloe_within(MEMORY_BYTES, "run", pipeline)

    loaded = run()
    assert (loaded["route"], loaded["insert"]) == ("insert_only", ROWS // EVERY)
    # Of each thousand rows another one lives now; rows of one group are equal, so that only the counts can differ.
    lake.delete(lives=1, replaced=0)
    changed = run()
    assert changed["route"] == "shuffle"


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


IDENTITY_MEMORY_BYTES: Final = 256 << 20
IDENTITY_ROWS: Final = 500_000
WORD_BYTES: Final = 400


def rows_of_one_identity(side: int) -> pa.Table:
    """Four of five rows have one key; no two rows are equal, and their words do not compress."""
    data = np.random.default_rng(side).integers(97, 123, IDENTITY_ROWS * WORD_BYTES, np.uint8)
    ends = np.arange(0, (IDENTITY_ROWS + 1) * WORD_BYTES, WORD_BYTES).astype(np.int32)
    words = pa.StringArray.from_buffers(IDENTITY_ROWS, pa.py_buffer(ends), pa.py_buffer(data))
    ids = np.arange(IDENTITY_ROWS)
    return pa.table([np.where(ids % 5, 7, ids), np.full(IDENTITY_ROWS, float(side)), words], schema=SCHEMA)


def test_an_identity_larger_than_memory_is_delivered_within_it(tmp_path: Path) -> None:
    shuffle = {"memory_bytes": f"{IDENTITY_MEMORY_BYTES >> 20}MiB", "partitions": 1}
    workshop = Workshop.create(tmp_path).set(initial_load="from_now", shuffle=shuffle)
    workshop.table.append(rows_of_one_identity(0))
    workshop.deliver()
    workshop.replace(rows_of_one_identity(1))
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    # The same batch goes on: only shuffle_read and commit are left.
    found = icefloe_within(IDENTITY_MEMORY_BYTES, "run", workshop.pipeline_file())
    counts = [found[kind] for kind in ("update_before", "update_after", "delete", "insert")]
    assert counts == [IDENTITY_ROWS, IDENTITY_ROWS, 0, 0]


ABOVE_TASK_BYTES: Final = 512 << 20
"""What a process may take in addition to `shuffle.memory_bytes`: the interpreter, its libraries, and what they hold."""


def icefloe_within(memory_bytes: int, *arguments: object) -> Any:
    """The JSON that a command prints, which must end well; see `run_within`."""
    done = run_within(memory_bytes, *arguments)
    assert done.returncode == 0, f"within {(memory_bytes + ABOVE_TASK_BYTES) >> 20} MiB: {done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def run_within(memory_bytes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process whose private memory has a limit.

    Args:
        memory_bytes: of a task; the process may have `ABOVE_TASK_BYTES` more.
        arguments: of the command line.
    """
    limit = memory_bytes + ABOVE_TASK_BYTES

    def enter() -> None:
        # One core runs one task at a time; each further one may take as much again.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "icefloe", *map(str, arguments), "--json"], preexec_fn=enter,
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins")}, capture_output=True, text=True, timeout=580,
    )  # fmt: skip
