import os
import subprocess
import sys
import weakref

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.parquet_files import read_parquet, row_groups, write_parquet_files
from icefloe.storage.location import open_store
from sinks.delivered_changes import SCHEMA, changes
from support.fakes.stores import CountingStore, flip_byte
from support.missing import require_linux
from support.pipelines.workspace import ROOT

ROWS = 12_000
THREADS = """
import sys
from pathlib import Path
import pyarrow as pa
from icefloe.sinks.parquet_files import read_parquet
from icefloe.storage.location import open_store

def threads():
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return sum(not name.startswith("tokio") for name in names)

pa.set_io_thread_count(1)
pa.set_cpu_count(8)
before = threads()
assert sum(batch.num_rows for batch in read_parquet(open_store(sys.argv[1]), "part"))
print(threads() - before)
"""
"""Prints the number of threads that a process gets by reading a file, without those of its store."""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "staged").mkdir()
    return tmp_path / "staged"


@pytest.fixture
def store(tmp_path, folder):
    """Holds ``part``: four row groups."""
    [file] = write_parquet_files(folder, SCHEMA, groups(ROWS), target_file_bytes=None)
    store = open_store((tmp_path / "sink").as_uri())
    store.put("part", file)
    return store


def groups(rows, *, of=ROWS // 4):
    return row_groups(SCHEMA, [changes(rows)], max_rows=of)


def test_a_file_is_decoded_in_the_thread_that_reads_it(store):
    require_linux()
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, store.url], env=environ, capture_output=True, text=True, check=True
    )
    # Arrow has some that fetch; decoding would take eight.
    assert int(done.stdout) < 8


def test_a_file_holds_the_groups_as_they_come(folder):
    [file] = write_parquet_files(folder, SCHEMA, groups(ROWS), target_file_bytes=None)
    written = pq.ParquetFile(file)
    assert [written.metadata.row_group(group).num_rows for group in range(4)] == [ROWS // 4] * 4
    assert written.schema_arrow.equals(SCHEMA)
    assert written.read().equals(pa.Table.from_batches([changes(ROWS)]))


def test_a_local_disk_that_fails_is_named(tmp_path):
    with pytest.raises(TransientError, match=r"cannot keep the changes of a task in .*/gone .*TMPDIR to a"):
        write_parquet_files(tmp_path / "gone", SCHEMA, groups(10), target_file_bytes=None)


@pytest.mark.filterwarnings("error")
def test_a_full_local_disk_is_an_error_to_try_again(folder):
    require_linux()
    (folder / "0.parquet").symlink_to("/dev/full")
    with pytest.raises(TransientError, match=r"No space left on device.*; free space there"):
        write_parquet_files(folder, SCHEMA, groups(ROWS), target_file_bytes=None)


def test_a_stored_file_is_read_back_group_by_group(store):
    counting = CountingStore(store)
    batches = read_parquet(counting, "part")
    assert next(batches).num_rows == ROWS // 4
    after_one = counting.calls["get_ranges"]
    rest = list(batches)
    assert after_one < counting.calls["get_ranges"] < 20
    assert counting.calls["get"] == 0
    read = pa.Table.from_batches([*read_parquet(store, "part")])
    assert read.equals(pa.Table.from_batches([changes(ROWS)]))
    assert sum(batch.num_rows for batch in rest) == ROWS * 3 // 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_file_is_one_sentence_with_its_url(store, damage):
    data = store.get("part")
    if damage == "flipped":
        for position in range(1_000, 1_040):
            flip_byte(store, "part", position)
    else:
        store.put("part", b"" if damage == "empty" else data[: len(data) // 2])
    with pytest.raises(
        TerminalError, match=r"sink/part is damaged: it cannot be read as Parquet; restore it"
    ) as caught:
        list(read_parquet(store, "part"))
    assert "\n" not in str(caught.value)


def test_a_thread_that_arrow_cannot_start_is_no_damage(store, monkeypatch):
    def fail(*_, **__):
        raise pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable")

    monkeypatch.setattr(pq, "ParquetFile", fail)
    with pytest.raises(MemoryError, match="Failed to launch worker thread"):
        list(read_parquet(store, "part"))


def test_a_group_is_forgotten_before_the_next_one_is_made(folder):
    last = []

    def one_by_one():
        for group in groups(ROWS):
            assert not [each for each in last if each() is not None]
            last.append(weakref.ref(group))
            yield group
            del group

    write_parquet_files(folder, SCHEMA, one_by_one(), target_file_bytes=None)
    assert len(last) == 4


def test_a_sample_has_the_named_columns_of_a_few_row_groups(tmp_path):
    rows = pa.table({"a": range(100), "at": [{"x": number, "y": 0} for number in range(100)], "b": range(100)})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=5)
    store = open_store(tmp_path.as_uri())
    found = pa.Table.from_batches(read_parquet(store, "rows.parquet", sampled=["a", "at.x"]))
    assert found.column_names == ["a", "at"]
    assert found["at"].type.names == ["x"]
    assert found["a"].to_pylist()[::5] == [0, 25, 50, 75]
