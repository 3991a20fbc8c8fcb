"""ORC files without Iceberg's attributes, read by the name mapping; tests/spark has those that Iceberg writes."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UUIDType,
)

from iceberg.far_io import FAR, FarIO
from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files import reader
from icefloe.iceberg.files.opened_file import selected_columns
from icefloe.iceberg.files.orc_file import OrcRows
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import optional
from support.tables.written_tables import reader as table_reader

ROWS = pa.table({"id": range(1000), "name": [None if n % 7 == 0 else f"name {n % 13}" for n in range(1000)]})
COLUMNS = Schema(optional("id", LongType()), optional("name", StringType(), 2))


def write_orc(path: Path, rows: pa.Table, **options: Any) -> DataFile:
    orc.write_table(rows, path, **options)
    size = path.stat().st_size
    return DataFile(path=str(path), file_format="ORC", spec_id=0, record_count=rows.num_rows, file_size_bytes=size)


def by_name(columns: Schema) -> TableSchema:
    return TableSchema.of(columns, create_mapping_from_schema(columns))


def read(file: DataFile, columns: Schema = COLUMNS, **options: Any) -> list[tuple[int, pa.RecordBatch]]:
    return list(table_reader(**options).rows(file, by_name(columns)))


def rows_of(file: DataFile, columns: Schema) -> list[dict[str, Any]]:
    return pa.Table.from_batches([batch for _, batch in read(file, columns)]).to_pylist()


def test_rows_come_in_order_with_their_positions(tmp_path: Path) -> None:
    file = write_orc(tmp_path / "f.orc", ROWS, stripe_size=1024)
    found = read(file, batch_rows=128)
    assert len(found) > 5
    assert all(batch.num_rows <= 128 and batch["id"][0].as_py() == first for first, batch in found)
    assert all(batch.schema.equals(by_name(COLUMNS).arrow, check_metadata=True) for _, batch in found)
    assert pa.Table.from_batches([batch for _, batch in found]).to_pylist() == ROWS.to_pylist()
    wanted = np.array([5, 99, 100, 500, 998])
    taken = table_reader(batch_rows=64).rows_at(file, wanted, by_name(COLUMNS))
    assert pa.Table.from_batches(list(taken)).to_pylist() == ROWS.take(pa.array(wanted)).to_pylist()


def test_a_file_far_away_is_copied_before_it_is_read(tmp_path: Path) -> None:
    file = write_orc(tmp_path / "f.orc", ROWS)
    far = table_reader(FarIO()).rows(replace(file, path=FAR + file.path), by_name(COLUMNS))
    assert sum(batch.num_rows for _, batch in far) == 1000


def test_a_full_disk_under_the_copy_is_no_fault_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_orc(tmp_path / "f.orc", ROWS)
    (tmp_path / "copy").symlink_to("/dev/full")
    monkeypatch.setattr(reader, "task_folder", lambda *_: nullcontext(tmp_path))
    far = table_reader(FarIO()).rows(replace(file, path=FAR + file.path), by_name(COLUMNS))
    with pytest.raises(TransientError, match=r"cannot be copied to local disk, from where .* No space left on device"):
        list(far)


@pytest.mark.slow
def test_large_rows_come_a_few_at_a_time(tmp_path: Path) -> None:
    file = write_orc(tmp_path / "f.orc", pa.table({"name": ["x" * (8 << 20)] * 40}), compression="zstd")
    assert Path(file.path).stat().st_size < 1 << 20
    sizes = [batch.nbytes for _, batch in read(file)]
    assert len(sizes) >= 5
    assert max(sizes) <= 72 << 20


def test_only_the_columns_of_the_schema_are_read(tmp_path: Path) -> None:
    rows = pa.table({"a.b": [1], "b": [{"a": 2}], "A": [3], "": [4], "sp ace": [5]})
    file = write_orc(tmp_path / "f.orc", rows)
    opened = OrcRows.open(pa.OSFile(file.path), batch_rows=10)
    for position, name in enumerate(rows.column_names):
        names, places = selected_columns(rows.column_names, [position], dots_are_paths=False)
        assert (names, places) == ([name], {position: 0})
        assert next(opened.batches([0], names)).to_pylist() == rows.select([name]).to_pylist()
    later = Schema(optional("A", LongType()), optional("new", LongType(), 2))
    assert rows_of(file, later) == [{"A": 3, "new": None}]


def test_a_column_named_like_a_path_into_another_is_refused(tmp_path: Path) -> None:
    file = write_orc(tmp_path / "f.orc", pa.table({"a.b": [1], "a": [{"b": 2}], "c": [3]}))
    assert rows_of(file, Schema(optional("c", LongType()))) == [{"c": 3}]
    with pytest.raises(TerminalError, match=r"column 'a\.b' has the same path as a field"):
        read(file, Schema(optional("a.b", LongType())))


def test_names_give_ids_at_every_level(tmp_path: Path) -> None:
    tags = ListType(10, StructType(optional("k", StringType(), 11), optional("v", LongType(), 12)), False)
    columns = Schema(optional("tags", tags), optional("m", MapType(20, StringType(), 21, LongType(), False), 2))
    rows = [
        {"tags": None, "m": None}, {"tags": [], "m": []},
        {"tags": [None, {"k": "a", "v": None}, {"k": None, "v": 2}], "m": [("x", 1), ("y", None)]},
    ]  # fmt: skip
    written = pa.schema(
        [
            ("m", pa.map_(pa.string(), pa.int32())),
            ("tags", pa.list_(pa.struct([("v", pa.int32()), ("stray", pa.bool_()), ("k", pa.string())]))),
        ]
    )
    file = write_orc(tmp_path / "f.orc", pa.Table.from_pylist(rows, written))
    assert rows_of(file, columns) == rows
    assert rows_of(file, Schema(*reversed(columns.fields))) == [{"m": row["m"], "tags": row["tags"]} for row in rows]


def test_values_have_the_tables_types(tmp_path: Path) -> None:
    columns = Schema(
        optional("time", TimeType(), 1), optional("uuid", UUIDType(), 2), optional("fixed", FixedType(3), 3),
        optional("decimal", DecimalType(20, 2), 4), optional("date", DateType(), 5), optional("b", BinaryType(), 6),
        optional("at", TimestampType(), 7),
    )  # fmt: skip
    at = pa.scalar(1_500_000_000_123_456_000, pa.timestamp("ns"))
    rows = pa.table(
        {
            "time": [3_723_000_004, None],
            "uuid": [b"k" * 16, None],
            "fixed": [b"abc", None],
            "decimal": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
            "date": [date(9999, 12, 31), None],
            "b": [b"", None],
            "at": pa.array([at.as_py(), None], pa.timestamp("ns")),
        }
    )
    ((_, batch),) = read(write_orc(tmp_path / "f.orc", rows), columns)
    expected = pa.schema(
        [
            ("time", pa.time64("us")), ("uuid", pa.uuid()), ("fixed", pa.binary(3)), ("decimal", pa.decimal128(20, 2)),
            ("date", pa.date32()), ("b", pa.large_binary()), ("at", pa.timestamp("us")),
        ]
    )  # fmt: skip
    assert batch.schema == expected
    assert batch.column("time").cast(pa.int64())[0].as_py() == 3_723_000_004
    assert batch.column("at").cast(pa.int64())[0].as_py() == 1_500_000_000_123_456
    assert batch.column("decimal")[0].as_py() == Decimal("1.25")
    assert batch.slice(1).to_pylist() == [dict.fromkeys(expected.names)]


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_that_pyarrow_does_not_take_from_orc_is_refused(tmp_path: Path, year: int) -> None:
    at = pa.array([datetime(2024, 2, 29), datetime(year, 1, 1)], pa.timestamp("us"))
    file = write_orc(tmp_path / "f.orc", pa.table({"id": [1, 2], "at": at}))
    assert rows_of(file, Schema(optional("id", LongType()))) == [{"id": 1}, {"id": 2}]
    with pytest.raises(TerminalError, match=r"f\.orc of table db\.t cannot be decoded: .*timestamp"):
        read(file, Schema(optional("id", LongType()), optional("at", TimestampType(), 2)))


@pytest.mark.parametrize(("codec", "said"), [("zlib", "Zlib"), ("zstd", "ZSTD")])
def test_rows_that_their_codec_refuses_are_damaged_and_named(tmp_path: Path, codec: str, said: str) -> None:
    file = write_orc(tmp_path / "f.orc", ROWS, compression=codec)
    data = bytearray(Path(file.path).read_bytes())
    # In the middle of the only stripe, whose index comes first.
    data[150:160] = b"\xff" * 10
    Path(file.path).write_bytes(data)
    with pytest.raises(TerminalError, match=rf"f\.orc of table db\.t cannot be decoded: .*{said}.*damaged"):
        read(file)


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda _: b"", lambda data: b"x" * len(data)])
def test_a_file_that_is_no_orc_is_damaged_and_named(tmp_path: Path, damage: Any) -> None:
    file = write_orc(tmp_path / "f.orc", ROWS)
    Path(file.path).write_bytes(damage(Path(file.path).read_bytes()))
    with pytest.raises(TerminalError, match=r"data file .*f\.orc of table db\.t cannot be decoded: .*damaged"):
        read(file)


def test_a_file_without_rows_gives_no_batches(tmp_path: Path) -> None:
    assert read(write_orc(tmp_path / "f.orc", ROWS.slice(0, 0))) == []
