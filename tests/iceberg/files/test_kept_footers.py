from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.parquet_footer import KeptFooters
from icefloe.iceberg.files.reader import ReadOptions, read_data_file, read_rows
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import local_io, optional, with_id, write_file

FIELDS = (optional("number", LongType()), optional("word", StringType(), 2))
ARROW = pa.schema([with_id(1, pa.field("number", pa.int64())), with_id(2, pa.field("word", pa.string()))])
ROWS = pa.table([list(range(600)), [f"word {number % 3}" for number in range(600)]], schema=ARROW)


def options(footers: KeptFooters | None, *names: str, dictionary_columns: bool = False) -> ReadOptions:
    fields = [field for field in FIELDS if not names or field.name in names]
    return ReadOptions(
        schema=TableSchema.of(Schema(*fields), None),
        io=local_io(),
        table="db.t",
        dictionary_columns=dictionary_columns,
        footers=footers,
    )


def words(file: DataFile, read: ReadOptions) -> list[str]:
    return [word for _, batch in read_data_file(file, **read) for word in batch.column("word").to_pylist()]


@pytest.mark.parametrize("is_encoded", [False, True], ids=["plain first", "dictionaries first"])
def test_a_file_that_is_opened_again_gives_the_same_rows_without_its_footer(tmp_path: Path, is_encoded: bool) -> None:
    file = write_file(tmp_path / "a.parquet", ROWS, row_group_size=250)
    footers = KeptFooters()
    expected = ROWS["word"].to_pylist()
    assert words(file, options(footers, dictionary_columns=is_encoded)) == expected
    lost = bytearray((tmp_path / "a.parquet").read_bytes())
    lost[-200:] = bytes(200)
    (tmp_path / "a.parquet").write_bytes(lost)
    assert words(file, options(footers, "word", dictionary_columns=not is_encoded)) == expected
    [batch] = read_rows(file, pa.array([7, 8]).to_numpy(), **options(footers))
    assert batch.to_pylist() == ROWS.slice(7, 2).to_pylist()


def test_footers_that_were_added_first_make_room_for_others(tmp_path: Path) -> None:
    files = [write_file(tmp_path / f"{name}.parquet", ROWS) for name in "abc"]
    sizes = KeptFooters()
    assert words(files[0], options(sizes))
    kept = sizes.get(files[0].path)
    assert kept is not None
    footers = KeptFooters(max_bytes=2 * kept.metadata.serialized_size)
    for file in (*files, files[1]):
        words(file, options(footers))
    assert [footers.get(file.path) is not None for file in files] == [False, True, True]
    small = KeptFooters(max_bytes=1)
    assert words(files[0], options(small))
    assert small.get(files[0].path) is None
