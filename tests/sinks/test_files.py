import json
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.documents import load_document
from icefloe.errors import TerminalError
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest, Part
from icefloe.storage.store import KeyMissingError
from sinks.delivered_changes import SCHEMA, changes, rechunked, summary
from sinks.written_parts import BATCH, breaking_off, contents, deliver, write
from support.fakes.stores import CountingStore


def test_a_part_holds_the_changes_in_the_promised_types_and_order(sink, folder):
    written = write(sink, 7, rechunked(changes(1_000), 300))
    file = folder / "batch=3" / "part-00007.parquet"
    assert contents(folder).keys() == {"batch=3/part-00007.parquet"}
    assert written == {"part-00007.parquet": file.stat().st_size}
    read = pq.ParquetFile(file).read()
    assert [(field.name, field.type) for field in read.schema][:5] == [
        ("_batch", pa.int64()),
        ("_change_type", pa.string()),
        ("_change_ordinal", pa.int32()),
        ("_commit_snapshot_id", pa.int64()),
        ("_commit_timestamp", pa.timestamp("us", tz="UTC")),
    ]
    assert read.schema.equals(SCHEMA)
    assert read.equals(pa.Table.from_batches([changes(1_000)]))


def test_zombies_and_retries_at_once_leave_the_same_bytes(store, folder, small_groups):
    sink = ChangeFiles(store, target_file_bytes=40_000)
    write(sink, 0, [changes(6_000)])
    first = contents(folder)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: write(sink, 0, [changes(6_000)]), range(8)))
    assert contents(folder) == first


@pytest.mark.parametrize("target_file_bytes", [None, 20_000])
def test_an_error_in_the_changes_leaves_nothing_visible(store, small_groups, target_file_bytes, tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    sink = ChangeFiles(store, target_file_bytes=target_file_bytes)
    with pytest.raises(TerminalError, match="do not add up"):
        write(sink, 0, breaking_off(rechunked(changes(6_000), 500), TerminalError("they do not add up")))
    assert contents(tmp_path) == {}
    assert list((tmp_path / "scratch").iterdir()) == []


def test_parts_are_staged_on_the_disks_that_spark_gives_its_tasks(sink, tmp_path, monkeypatch):
    disks = [tmp_path / "disk 1", tmp_path / "disk 2"]
    for disk in disks:
        disk.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, disks)))

    def staged():
        yield changes(10)
        seen.append([len(list(disk.iterdir())) for disk in disks])

    seen = []
    for number in (0, 1, 2):
        write(sink, number, staged())
    assert seen == [[1, 0], [0, 1], [1, 0]]
    assert [list(disk.iterdir()) for disk in disks] == [[], []]


def test_a_part_rolls_over_files_of_about_the_target_size(store, folder, small_groups):
    sink = ChangeFiles(store, target_file_bytes=60_000)
    written = write(sink, 12, rechunked(changes(10_000), 700))
    names = list(written)
    assert names[:2] == ["part-00012.parquet", "part-00012-1.parquet"]
    sizes = [(folder / "batch=3" / name).stat().st_size for name in names]
    assert len(sizes) > 2
    assert all(60_000 <= size <= 120_000 for size in sizes[:-1])
    assert list(written.values()) == sizes
    part = Part(names=tuple(names), rows=10_000, size_bytes=sum(sizes), hash_sum=0)
    assert pa.Table.from_batches(sink.read_part(BATCH, part)).equals(pa.Table.from_batches([changes(10_000)]))


def test_the_manifest_comes_last_and_names_exactly_the_parts(sink, store, folder):
    parts = {2: changes(40, first=100), 0: changes(60), 1: changes(0)}
    with pytest.raises(KeyMissingError, match=r"batch=3/_manifest\.json"):
        sink.manifest(BATCH)
    messages = deliver(sink, parts)
    manifest = sink.manifest(BATCH)
    assert [part.names for part in manifest.parts] == [("part-00000.parquet",), ("part-00002.parquet",)]
    assert [(part.rows, part.hash_sum) for part in manifest.parts] == [(60, 1), (40, 3)]
    assert sum(part.size_bytes for part in manifest.parts) == sum(each.size_bytes for each in messages)
    named = {f"batch=3/{name}" for part in manifest.parts for name in part.names}
    assert contents(folder).keys() == {*named, "batch=3/_manifest.json"}
    assert manifest.batch == summary(BATCH, 100)
    read = [batch for part in manifest.parts for batch in sink.read_part(BATCH, part)]
    assert pa.Table.from_batches(read).equals(pa.Table.from_batches([parts[0], parts[2]]))


def test_the_manifest_reads_as_documented(sink, folder):
    deliver(sink, {0: changes(60)})
    text = (folder / "batch=3" / "_manifest.json").read_text()
    assert json.loads(text) == {
        "version": 1,
        "format": "parquet",
        "columns": {},
        "batch": {
            "pipeline": "flights",
            "table": "nyc.flights",
            "batch_number": 3,
            "after_snapshot_id": None,
            "up_to_snapshot_id": "4611686018427387906",
            "steps": 2,
            "rows": 60,
            "counts": {"insert": 60, "delete": 0, "update_before": 0, "update_after": 0},
            "hash_sum": "00000000000000000000000000000007",
            "hash_key": "00000000000000000000000000000009",
            "changed_partitions": None,
        },
        "parts": [
            {
                "names": ["part-00000.parquet"],
                "rows": 60,
                "size_bytes": (folder / "batch=3" / "part-00000.parquet").stat().st_size,
                "hash_sum": "00000000000000000000000000000001",
            }
        ],
    }
    assert text.endswith("}\n")
    assert load_document(Manifest, text.encode(), what="it") == sink.manifest(BATCH)


def test_a_duplicate_after_the_commit_writes_nothing(sink, store):
    deliver(sink, {0: changes(60), 1: changes(0)})
    counting = CountingStore(store)
    written = [write(ChangeFiles(counting), 0, [changes(60)]), write(ChangeFiles(counting), 1, [])]
    assert (counting.calls["put"], counting.calls["create"]) == (0, 1)
    assert [*map(list, written)] == [["part-00000.parquet"], []]


@pytest.mark.parametrize(("number", "rows"), [(0, 61), (0, 0), (1, 5)])
def test_a_batch_that_is_whole_is_never_overwritten_by_other_changes(sink, folder, number, rows):
    deliver(sink, {0: changes(60)})
    first = contents(folder)
    with pytest.raises(
        TerminalError, match=r"changes/batch=3 already holds .* pipeline flights .* sink.path of its own"
    ):
        deliver(sink, {number: changes(rows)})
    assert contents(folder).items() >= first.items()


def test_the_cut_of_a_batch_is_that_of_its_rows_and_not_of_its_files():
    def cut(*parts):
        made = [Part(names=(name,), rows=rows, size_bytes=size, hash_sum=sum_) for name, rows, size, sum_ in parts]
        return Manifest(batch=summary(3, 5), columns={}, parts=tuple(made)).cut

    first = cut(("part-00000.parquet", 3, 100, 7), ("part-00001.parquet", 2, 90, 5))
    assert first == cut(("part-00000.parquet", 3, 101, 7), ("part-00002.parquet", 2, 90, 5))
    assert first != cut(("part-00000.parquet", 2, 90, 5), ("part-00001.parquet", 3, 100, 7))
    assert first != cut(("part-00000.parquet", 5, 190, 12))
