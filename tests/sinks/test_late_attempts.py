"""Attempts that cut a part into other files than the attempt whose files the manifest names."""

import pyarrow as pa
import pytest

from icefloe.sinks import change_files
from icefloe.sinks.change_files import ChangeFiles
from sinks.delivered_changes import changes
from sinks.written_parts import BATCH, contents, deliver, other_bytes, write
from support.fakes.stores import Fault, FaultyStore

ROWS = 10_000
FLOATS = pa.schema({"value": pa.float64(), "nested": pa.large_list(pa.struct({"value": pa.float32()}))})


def rows_of(sink):
    return pa.Table.from_batches(
        [rows for part in sink.manifest(BATCH).parts for rows in sink.read_part(BATCH, part)]
    ).combine_chunks()


def cut_elsewhere(patched) -> None:
    """Attempts end their files at other rows, as with another PyArrow."""
    patched.setattr(change_files, "GROUP_BYTES", 40_000)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_an_attempt_that_cut_elsewhere_and_stopped_before_a_file_changes_no_byte_of_a_whole_batch(
    store, folder, small_groups, monkeypatch, nth
):
    committed: dict[str, bytes] = {}
    with monkeypatch.context() as patched:

        def overtake() -> None:
            patched.undo()
            deliver(ChangeFiles(store, target_file_bytes=60_000), {0: changes(ROWS)})
            committed.update(contents(folder))

        stopped = FaultyStore(store, Fault(operation="create", key="*/part-*", nth=nth, action=overtake))
        cut_elsewhere(patched)
        write(ChangeFiles(stopped, target_file_bytes=60_000), 0, [changes(ROWS)])
    assert stopped.struck
    assert {key: contents(folder)[key] for key in committed} == committed
    assert rows_of(ChangeFiles(store)).equals(pa.Table.from_batches([changes(ROWS)]))


def test_a_retry_finds_its_files_also_behind_those_of_another_attempt(store, folder, small_groups, monkeypatch):
    with monkeypatch.context() as patched:
        cut_elsewhere(patched)
        write(ChangeFiles(store, target_file_bytes=60_000), 0, [changes(ROWS)])
    first = write(ChangeFiles(store, target_file_bytes=60_000), 0, [changes(ROWS)])
    before = contents(folder)
    assert write(ChangeFiles(store, target_file_bytes=60_000), 0, [changes(ROWS)]) == first
    assert contents(folder) == before


def test_rows_with_nan_are_the_same_rows_in_other_bytes(store, folder, monkeypatch):
    nan = float("nan")
    rows = pa.record_batch(
        [
            pa.array([1.0, nan, -0.0, None] * 100, FLOATS.field("value").type),
            pa.array([[{"value": nan}], [], None, [{"value": 1.5}]] * 100, FLOATS.field("nested").type),
        ],
        schema=FLOATS,
    )
    with monkeypatch.context() as patched:
        other_bytes(patched)
        first = ChangeFiles(store).write(batch_number=BATCH, number=0, schema=FLOATS, changes=iter([rows]))
    before = contents(folder)
    second = ChangeFiles(store).write(batch_number=BATCH, number=0, schema=FLOATS, changes=iter([rows]))
    assert (second, contents(folder)) == (first, before)


def test_rows_with_nan_that_differ_elsewhere_are_other_rows(store, folder):
    schema = pa.schema({"value": pa.float64(), "id": pa.int64()})
    for ids in ([1, 2], [1, 3]):
        rows = pa.record_batch([[float("nan")] * 2, ids], schema=schema)
        ChangeFiles(store).write(batch_number=BATCH, number=0, schema=schema, changes=iter([rows]))
    assert contents(folder).keys() == {"batch=3/part-00000.parquet", "batch=3/part-00000.1.parquet"}
