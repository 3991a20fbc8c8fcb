"""Large map tasks are divided by row groups where copied rows still meet."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from icefloe.batch.plan import map_tasks as module
from icefloe.batch.plan.map_tasks import _cuts, divided_tasks
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.scan.scan_tasks import ScanTask, Term
from support.tables.written_tables import reader, with_id, write_file


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAST_BYTES", 0)


ROWS = pa.table({"id": pa.array(np.random.default_rng(1).integers(2**62, size=10_000))})


def scanned(path: Path, *, rows: int = 10_000, row_group_size: int = 1000, weight: int = 1) -> ScanTask:
    schema = pa.schema([with_id(1, pa.field("id", pa.int64()))])
    file = write_file(path, ROWS.slice(0, rows).cast(schema), row_group_size=row_group_size)
    return ScanTask(data_file=file, terms=(Term(change_ordinal=0, weight=weight),), partition=(0, ()))


def divided(*tasks: tuple[ScanTask, ...], parts: float) -> list[tuple[ScanTask, ...]]:
    """With so many bytes a task that the first one has so many parts."""
    size_bytes = sum(file.data_file.file_size_bytes for file in tasks[0])
    return divided_tasks(tasks, reader(), map_task_bytes=int(size_bytes / parts))


def cuts(files: Sequence[DataFile]) -> list[tuple[int, int] | None]:
    return [None if file.row_groups is None else (file.row_groups.first, file.row_groups.stop) for file in files]


def test_a_large_file_is_read_by_several_tasks(tmp_path: Path) -> None:
    parts = [file.data_file for (file,) in divided((scanned(tmp_path / "a.parquet"),), parts=3)]
    assert [part.record_count for part in parts] == [3000, 4000, 3000]
    assert cuts(parts) == [(0, 3), (3, 7), (7, 10)]
    assert sum(part.read_bytes for part in parts) < parts[0].file_size_bytes


def test_row_ids_go_on_after_the_rows_before(tmp_path: Path) -> None:
    whole = scanned(tmp_path / "a.parquet")
    numbered = replace(whole, data_file=replace(whole.data_file, first_row_id=5000))
    assert [file.data_file.first_row_id for (file,) in divided((numbered,), parts=2)] == [5000, 10_000]


def test_files_whose_row_groups_have_the_same_rows_are_divided_alike(tmp_path: Path) -> None:
    pair = (scanned(tmp_path / "old.parquet", weight=-1), scanned(tmp_path / "new.parquet"))
    parts = divided(pair, parts=2)
    assert [cuts([file.data_file for file in part]) for part in parts] == [[(0, 5)] * 2, [(5, 10)] * 2]


@pytest.mark.parametrize(("rows", "row_group_size"), [(9999, 1000), (10_000, 1010), (10_000, 10_000)])
def test_files_whose_row_groups_differ_stay_in_one_task(tmp_path: Path, rows: int, row_group_size: int) -> None:
    old = scanned(tmp_path / "old.parquet", weight=-1)
    pair = (old, scanned(tmp_path / "new.parquet", rows=rows, row_group_size=row_group_size))
    assert divided(pair, parts=4) == [pair]


def test_a_file_with_delete_files_stays_whole(tmp_path: Path) -> None:
    whole = scanned(tmp_path / "a.parquet")
    deleted = replace(whole, terms=(Term(change_ordinal=0, weight=-1, delete_files=FrozenBitMap([3])),))
    assert divided((deleted,), parts=4) == [(deleted,)]


def test_small_tasks_and_those_of_large_batches_stay_whole(tmp_path: Path) -> None:
    whole = scanned(tmp_path / "a.parquet")
    assert divided((whole,), parts=1.4) == [(whole,)]
    many = [(whole,)] * 65
    assert divided(*many, parts=4) == many
    assert len(divided(*many[:64], parts=4)) == 4 * 64


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=50), st.integers(1, 20_000))
def test_cuts_cover_each_row_group_once_and_exceed_their_share_by_one_row_group(
    sizes: list[int], most_bytes: int
) -> None:
    found = [*_cuts(sizes, most_bytes)]
    assert [number for cut in found for number in range(len(sizes))[cut]] == [*range(len(sizes))]
    share = sum(sizes) / max(1, min(len(sizes), round(sum(sizes) / most_bytes)))
    assert all(sum(sizes[cut]) <= share + max(sizes) for cut in found)
