from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from batch.map.rewritten_pairs import reader
from icefloe.batch.fast_ways import FastWay
from icefloe.batch.map.carryover import CarryOver
from icefloe.batch.rows.file_effects import Effect, FileEffects, RowSet
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.iceberg.data_file import DataFile
from support.tables.small_rewrites import fast_ways_of_small_files
from support.tables.written_tables import with_id

SCHEMA = Schema(NestedField(1, "key", LongType()), NestedField(2, "word", StringType()))
AMPLE = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row with its lineage; a number that is None is inherited from the file."""

    key: int
    word: str = "a"
    row_id: int | None = None
    number: int | None = None


def written(
    path: Path, rows: Sequence[Row], *, weight: int, first_row_id: int | None, number: int, gone: Sequence[int] = ()
) -> FileEffects:
    """A data file of one step; without any physical lineage, it has no columns for it, as an append has none."""
    fields = [with_id(1, pa.field("key", pa.int64())), with_id(2, pa.field("word", pa.string()))]
    columns: list[list[Any]] = [[row.key for row in rows], [row.word for row in rows]]
    if any(row.row_id is not None or row.number is not None for row in rows):
        fields.append(with_id(2147483540, pa.field("_row_id", pa.int64())))
        fields.append(with_id(2147483539, pa.field("_last_updated_sequence_number", pa.int64())))
        columns += [[row.row_id for row in rows], [row.number for row in rows]]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path, row_group_size=7, store_schema=False)
    file = DataFile(
        path=str(path), file_format="PARQUET", spec_id=0, record_count=len(rows), file_size_bytes=10,
        first_row_id=first_row_id, sequence_number=number,
    )  # fmt: skip
    touched = RowSet(positions=np.array(gone, np.int64), is_all_but=True)
    return FileEffects(data_file=file, effects=(Effect(change_ordinal=0, weight=weight, rows=touched),))


def left(
    files: Sequence[FileEffects], *, ways: Sequence[FastWay] = (FastWay.LINEAGE,), memory: int = AMPLE
) -> Counter[Any]:
    carryover = CarryOver(files, reader(SCHEMA), memory_bytes=memory, fast_ways=ways)
    weights: Counter[Any] = Counter()
    for rows in carryover.changed_rows():
        for row, weight in zip(rows.batch.to_pylist(), rows.weights.tolist(), strict=True):
            weights[row["key"], row["word"]] += weight
    carryover.tally.require({0: sum(weights.values())}, what="the test")
    return Counter({row: weight for row, weight in weights.items() if weight})


def rewritten(
    folder: Path, seed: int, *, rows: int, changed: float, dropped: float, shuffled: bool
) -> list[FileEffects]:
    """Two files that were appended at 3 and 4, and what a commit with number 9 made of them, in one to three files."""
    random = Random(seed)
    files, state = [], []
    for place, number in enumerate((3, 4)):
        before = [Row(key=random.randrange(9), word=random.choice("abc")) for _ in range(rows)]
        gone = [position for position in range(rows) if random.random() < dropped]
        path = folder / f"removed-{place}.parquet"
        files.append(written(path, before, weight=-1, first_row_id=100 * place, number=number, gone=gone))
        state += [
            replace(row, row_id=100 * place + position, number=number)
            for position, row in enumerate(before)
            if position not in gone
        ]
    state = [
        # An update may also give the same values again.
        replace(row, word=random.choice("abc"), number=None) if random.random() < changed else row
        for row in state
        if random.random() >= dropped
    ]
    state += [Row(key=random.randrange(9)) for _ in range(random.randrange(3))]
    if shuffled:
        random.shuffle(state)
    parts = random.choice((1, 2, 3))
    for place in range(parts):
        path = folder / f"added-{place}.parquet"
        files.append(written(path, state[place::parts], weight=1, first_row_id=1000 + 100 * place, number=9))
    return [file for file in files if file.touched_count()]


SEEDS, SHARES = st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32), st.sampled_from([1, 5, 40]), SHARES, SHARES, st.booleans(), st.sampled_from([AMPLE, 1_000])
)
def test_row_lineage_leaves_the_rows_that_comparing_leaves(
    seed: int, rows: int, changed: float, dropped: float, shuffled: bool, memory: int
) -> None:
    with TemporaryDirectory() as folder:
        files = rewritten(Path(folder), seed, rows=rows, changed=changed, dropped=dropped, shuffled=shuffled)
        assert left(files, memory=memory) == left(files, ways=())


def pair(
    folder: Path, before: Sequence[Row], after: Sequence[Row], *, first_row_id: int | None = 0
) -> list[FileEffects]:
    return [
        written(folder / "removed.parquet", before, weight=-1, first_row_id=first_row_id, number=3),
        written(folder / "added.parquet", after, weight=1, first_row_id=100, number=9),
    ]


def copies(count: int) -> list[Row]:
    return [Row(key=key, row_id=key, number=3) for key in range(count)]


def test_only_rows_that_are_no_copies_are_read_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after = [replace(row, word="b", number=None) if row.key == 4 else row for row in copies(10)]
    files = pair(tmp_path, [Row(key=key) for key in range(10)], after)
    read: list[list[int]] = []
    at_positions = TableRowReader.read_rows

    def watched(self: TableRowReader, data_file: DataFile, positions: Any) -> Any:
        read.append(positions.tolist())
        return at_positions(self, data_file, positions)

    monkeypatch.setattr(TableRowReader, "read", lambda *_: pytest.fail("a whole file was decoded"))
    monkeypatch.setattr(TableRowReader, "read_rows", watched)
    assert left(files) == Counter({(4, "a"): -1, (4, "b"): 1})
    assert read == [[4], [4]]


def test_a_sequence_number_is_trusted_against_the_values(tmp_path: Path) -> None:
    # The value changed, and the sequence number did not: against the specification.
    after = [replace(row, word="b") if row.key == 4 else row for row in copies(10)]
    files = pair(tmp_path, [Row(key=key) for key in range(10)], after)
    assert left(files) == Counter()
    assert left(files, ways=()) == Counter({(4, "a"): -1, (4, "b"): 1})


def test_identical_columns_are_looked_for_before_row_ids_are_trusted(tmp_path: Path) -> None:
    # This writer left the other column as it was, and it hides a change by the old sequence number.
    after = [replace(row, word="b") if row.key == 4 else row for row in copies(10)]
    files = pair(tmp_path, [Row(key=key) for key in range(10)], after)
    with fast_ways_of_small_files():
        carryover = CarryOver(files, reader(SCHEMA), memory_bytes=AMPLE, fast_ways=tuple(FastWay))
        assert sum(len(rows.weights) for rows in carryover.changed_rows()) == 2
    assert carryover.files_by_way == {"identical": 2, "lineage": 0, "hashed": 0}


@pytest.mark.parametrize("case", ["no row ids", "doubled row ids", "few copies"])
def test_row_ids_that_say_nothing_are_not_used(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after = copies(10)
    if case == "doubled row ids":
        after[3] = replace(after[3], row_id=4)
    elif case == "few copies":
        after = [replace(row, number=None) for row in after]
    files = pair(tmp_path, [Row(key=key) for key in range(10)], after, first_row_id=None if case == "no row ids" else 0)
    monkeypatch.setattr(TableRowReader, "read_rows", lambda *_: pytest.fail("row ids were trusted"))
    assert left(files) == left(files, ways=())
