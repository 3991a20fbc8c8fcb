from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import LongType, NestedField, StringType

from icefloe.iceberg.data_file import DataFile, RowGroups
from icefloe.iceberg.files.reader import plain_batch, read_data_file, read_matching_rows
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.avro_writing import record, write_avro
from support.tables.written_tables import local_io, with_id, write_file

ID = NestedField(1, "id", LongType(), required=True)
SCHEMA = TableSchema.of(Schema(ID, NestedField(2, "name", StringType())))
ROWS = pa.table(
    [pa.array(range(1000)), pa.array([None if n % 7 == 0 else f"name {n % 13}" for n in range(1000)])],
    schema=pa.schema(
        [with_id(1, pa.field("id", pa.int64(), nullable=False)), with_id(2, pa.field("name", pa.string()))]
    ),
)


@pytest.mark.parametrize("batch_rows", [1, 128, 10_000])
@pytest.mark.parametrize("text", ["id in (299, 650)", "id >= 990", "name = 'nobody'", "name is null", "id < 0"])
def test_row_groups_without_a_row_that_passes_are_announced_not_read(
    tmp_path: Path, text: str, batch_rows: int
) -> None:
    file = write_file(tmp_path / "f.parquet", ROWS, row_group_size=30)
    row_filter = RowFilter.parse(text, SCHEMA.columns, table="db.t")
    options = {"schema": SCHEMA, "io": local_io(), "table": "db.t", "batch_rows": batch_rows}
    passing, position, decoded = [], 0, 0
    for first, num_rows, batch in read_matching_rows(file, row_filter=row_filter, dictionary_columns=True, **options):
        assert first == position
        position += num_rows
        if batch is not None:
            assert batch.num_rows == num_rows
            decoded += num_rows
            passing += plain_batch(batch, SCHEMA).filter(pa.array(row_filter.mask(batch))).to_pylist()
    assert position == 1000
    assert decoded < 1000 or text == "name is null"
    whole = pa.Table.from_batches([batch for _, batch in read_data_file(file, **options)]).to_batches()
    assert passing == [row for batch in whole for row in batch.filter(pa.array(row_filter.mask(batch))).to_pylist()]


def test_only_the_row_groups_to_read_are_announced(tmp_path: Path) -> None:
    file = write_file(tmp_path / "f.parquet", ROWS, row_group_size=100)
    part = replace(file, record_count=200, row_groups=RowGroups(first=4, stop=6, size_bytes=1))
    row_filter = RowFilter.parse("id in (420, 650)", SCHEMA.columns, table="db.t")
    found = list(read_matching_rows(part, row_filter=row_filter, schema=SCHEMA, io=local_io(), table="db.t"))
    assert [(first, rows, batch is None) for first, rows, batch in found] == [(0, 100, False), (100, 100, True)]


@pytest.mark.parametrize("file_format", ["ORC", "AVRO"])
def test_formats_without_statistics_are_read_whole(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / "f"
    if file_format == "ORC":
        orc.write_table(pa.table({"id": [1, 2, 3]}), path)
    else:
        write_avro(path, record(("id", "long", 1)), [[1], [2], [3]])
    found = TableSchema.of(Schema(ID), create_mapping_from_schema(Schema(ID)))
    row_filter = RowFilter.parse("id > 7", found.columns, table="db.t")
    file = DataFile(path=str(path), file_format=file_format, spec_id=0, record_count=3, file_size_bytes=1)
    [(first, rows, batch)] = read_matching_rows(file, row_filter=row_filter, schema=found, io=local_io(), table="db.t")
    assert (first, rows) == (0, 3)
    assert batch is not None
    assert not row_filter.mask(batch).any()
