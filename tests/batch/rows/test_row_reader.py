from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap64

from icefloe.batch.map.hashed_rows import FileTally
from icefloe.batch.rows.file_effects import Effect, FileEffects, RowSet
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_shape import RowShape
from icefloe.checkpoint.batch_spec import Identity
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import reader as table_reader
from support.tables.written_tables import with_id

SCHEMA = TableSchema.of(Schema(NestedField(1, "id", LongType()), NestedField(2, "word", StringType())))
ROWS, GROUP = 100, 10
ROW_ID = with_id(2147483540, pa.field("_row_id", pa.int64()))


def written(path: Path, row_ids: Sequence[int | None] | None = None, **described: Any) -> DataFile:
    """Ids ascending, ten rows to a row group."""
    fields = [with_id(1, pa.field("id", pa.int64())), with_id(2, pa.field("word", pa.string()))]
    columns = [pa.array(range(ROWS)), pa.array([f"w{row % 3}" for row in range(ROWS)])]
    if row_ids is not None:
        fields, columns = [*fields, ROW_ID], [*columns, pa.array(row_ids, pa.int64())]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path, row_group_size=GROUP)
    return DataFile(path=str(path), file_format="PARQUET", spec_id=0, record_count=ROWS, file_size_bytes=1, **described)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> DataFile:
    return written(tmp_path_factory.mktemp("rows") / "f.parquet")


def reader(
    filter_text: str | None = None, *, columns: Sequence[str] | None = None, policy: Any = "none"
) -> TableRowReader:
    shape = RowShape.of(
        SCHEMA, identity=Identity(policy=policy), columns=columns, filter_text=filter_text, table="db.t"
    )
    return TableRowReader(shape=shape, files=table_reader())


def touched(file: DataFile, rows: RowSet = RowSet.ALL) -> FileEffects:
    return FileEffects(data_file=file, effects=(Effect(change_ordinal=0, weight=1, rows=rows),))


def read(found: TableRowReader, file: FileEffects) -> tuple[list[int], list[int], int]:
    """Positions, ids, and how many rows were read for them."""
    tally = FileTally(file)
    positions, ids = [], []
    for rows in found.read(file):
        tally.add(rows)
        positions += rows.positions.tolist()
        ids += found.plain(rows.batch).column(0).to_pylist()
    assert tally.weighted() == [(0, len(positions))]
    return positions, ids, tally.rows_read


GONE = st.sets(st.integers(0, ROWS - 1), max_size=60).map(BitMap64)
PASSING = {
    "id < 25": range(25),
    "id = 40": [40],
    "id > 1000": [],
    "id in (5, 95)": [5, 95],
    "id != 7": {*range(ROWS)} - {7},
    "id between 38 and 62": range(38, 63),
    "word = 'zzz'": [],
    "not (id >= 10 and id < 90)": [*range(10), *range(90, ROWS)],
}


@settings(max_examples=60, deadline=None)
@given(GONE, st.sampled_from(sorted(PASSING)), st.booleans())
def test_touched_rows_that_pass_are_read_and_all_touched_ones_count_as_read(
    file: DataFile, listed: BitMap64, filter_text: str, is_all_but: bool
) -> None:
    rows = RowSet(positions=listed, is_all_but=is_all_but)
    positions, ids, rows_read = read(reader(filter_text), touched(file, rows))
    live = set(rows.among(np.arange(ROWS)).tolist())
    assert positions == ids == sorted(live.intersection(PASSING[filter_text]))
    assert rows_read == len(live)


@pytest.mark.parametrize("filter_text", [None, "id >= 95 or id = 3"])
def test_row_ids_are_those_of_the_file_or_follow_from_the_position(tmp_path: Path, filter_text: str | None) -> None:
    row_ids = [None if row % 2 else 7 * row for row in range(ROWS)]
    file = written(tmp_path / "f.parquet", row_ids, first_row_id=5000)
    found = reader(filter_text, policy="row_id")
    gone = RowSet(positions=BitMap64([0, 96]), is_all_but=True)
    for rows in found.read(touched(file, gone)):
        [ids] = found.shape.identity_of(found.plain(rows.batch))
        expected = [5000 + row if row % 2 else 7 * row for row in rows.positions.tolist()]
        assert ids.to_pylist() == expected
    batches = list(found.read_rows(file, np.array([3, 4, 97])))
    assert [row_id for batch in batches for row_id in batch.column("_identity_0").to_pylist()] == [5003, 28, 5097]
