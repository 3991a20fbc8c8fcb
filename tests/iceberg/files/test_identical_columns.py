from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import (
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.data_file import DataFile, RowGroups
from icefloe.iceberg.files import identical_columns as module
from icefloe.iceberg.files import reader as file_reader
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import column, optional, reader, with_id, write_file

NUMBER, WORD = optional("number", LongType()), optional("word", StringType(), 2)
STRUCT = StructType(NestedField(31, "x", DoubleType()), NestedField(32, "name", StringType()))
FIELDS: Final = (NUMBER, WORD, optional("place", STRUCT, 3), optional("marks", ListType(41, LongType()), 4))
ARROW: Final = pa.schema(
    [
        with_id(1, pa.field("number", pa.int64())),
        with_id(2, pa.field("word", pa.string())),
        with_id(3, pa.field("place", pa.struct([with_id(31, pa.field("x", pa.float64())),
                                               with_id(32, pa.field("name", pa.string()))]))),
        with_id(4, pa.field("marks", pa.list_(with_id(41, pa.field("element", pa.int64()))))),
    ]
)  # fmt: skip
EDITS: Final = st.sampled_from(["none", "changed", "renamed_values", "null", "swapped", "rotated", "doubled"])


@pytest.fixture(autouse=True, scope="module")
def small_files() -> Iterator[None]:
    """Few bytes are worth comparing, and they are read in many pieces."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(module, "_LEAST_SHARE", 0.0)
        patches.setattr(module, "_PIECE_BYTES", 61)
        yield


def identical(one: DataFile, other: DataFile, *fields: NestedField, mapping: NameMapping | None = None) -> set[str]:
    schema = TableSchema.of(Schema(*fields), mapping)
    return set(reader().identical_columns(one, other, schema))


def pair(folder: Path, one: pa.Table, other: pa.Table, **options: Any) -> tuple[DataFile, DataFile]:
    return write_file(folder / "one.parquet", one, **options), write_file(folder / "other.parquet", other, **options)


def edited(values: Sequence[Any], edit: str, random: Random, group_rows: int) -> list[Any]:
    """The values with a change that may leave the bytes of some pages as they are."""
    edits = {
        "none": lambda: list(values),
        "changed": lambda: [random.choice(values) if random.random() < 0.1 else value for value in values],
        # As many distinct values of the same length, in the same order: only the dictionary differs.
        "renamed_values": lambda: [renamed(value) for value in values],
        "null": lambda: [None if random.random() < 0.1 else value for value in values],
        "swapped": lambda: list(reversed(values)),
        "rotated": lambda: [*values[group_rows:], *values[:group_rows]],
        "doubled": lambda: [*values[:-1], values[0]],
    }
    return edits[edit]()


def renamed(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(str.maketrans("abc", "xyz"))
    if isinstance(value, dict):
        return {name: renamed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner) for inner in value]
    return None if value is None else value + 3


def random_rows(random: Random, rows: int) -> list[list[Any]]:
    def values(make: Any) -> list[Any]:
        return [None if random.random() < 0.2 else make() for _ in range(rows)]

    return [
        values(lambda: random.randrange(3)),
        values(lambda: random.choice("abc") * 2),
        values(lambda: {"x": random.choice([0.0, 1.5, None]), "name": random.choice("abc")}),
        values(lambda: [random.randrange(3) for _ in range(random.randrange(3))]),
    ]


def table_of(columns: Sequence[Sequence[Any]]) -> pa.Table:
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ARROW, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ARROW)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.sampled_from([1, 6, 40, 300]),
    edits=st.tuples(EDITS, EDITS, EDITS, EDITS),
    group_rows=st.sampled_from([3, 20, 1_000]),
    has_dictionaries=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
)
def test_columns_are_identical_only_if_their_values_are_and_unchanged_columns_are_found(
    seed: int, rows: int, edits: tuple[str, ...], group_rows: int, has_dictionaries: bool, version: str
) -> None:
    random = Random(seed)
    before = random_rows(random, rows)
    after = [edited(values, edit, random, group_rows) for values, edit in zip(before, edits, strict=True)]
    with TemporaryDirectory() as folder:
        one, other = pair(
            Path(folder), table_of(before), table_of(after),
            row_group_size=group_rows, use_dictionary=has_dictionaries, data_page_version=version, data_page_size=64,
        )  # fmt: skip
        found = identical(one, other, *FIELDS)
    names = [field.name for field in FIELDS]
    equal = {name for name, was, now in zip(names, before, after, strict=True) if was == now}
    assert found <= equal
    assert found >= {name for name, edit in zip(names, edits, strict=True) if edit == "none"}


def test_columns_are_found_by_field_id_whatever_their_names(tmp_path: Path) -> None:
    def two(first: int, second: int, *names: str) -> pa.Table:
        fields = [
            with_id(number, pa.field(name, pa.int64())) for number, name in zip((first, second), names, strict=True)
        ]
        return pa.table([pa.array([1, 2, 3]), pa.array([7, 8, 9])], schema=pa.schema(fields))

    columns = optional("a", LongType(), 1), optional("b", LongType(), 2)
    assert identical(*pair(tmp_path, two(1, 2, "a", "b"), two(1, 2, "was_a", "b")), *columns) == {"a", "b"}
    assert identical(*pair(tmp_path, two(1, 2, "a", "b"), two(2, 1, "a", "b")), *columns) == set()


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        (pa.int32(), pa.int64(), LongType()),
        (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), TimestamptzType()),
        (pa.timestamp("ms"), pa.timestamp("us"), TimestampType()),
    ],
)
@pytest.mark.parametrize("values", [[None, None], [0, None], [5, 6]])
def test_columns_of_other_types_are_not_identical_even_if_their_bytes_are(
    tmp_path: Path, was: pa.DataType, now: pa.DataType, kind: IcebergType, values: list[Any]
) -> None:
    one, other = (column("c", pa.array(values, written)) for written in (was, now))
    assert identical(*pair(tmp_path, one, other), optional("c", kind)) == set()
    assert identical(*pair(tmp_path, one, one), optional("c", kind)) == {"c"}


def test_values_that_are_in_no_file_count_with_those_that_are(tmp_path: Path) -> None:
    def with_constants(file: DataFile, **constants: int) -> DataFile:
        return DataFile(path=file.path, file_format="PARQUET", spec_id=0, record_count=2, file_size_bytes=9,
                        constants={name.removeprefix("id_"): value for name, value in constants.items()})  # fmt: skip

    place = with_id(3, pa.field("place", pa.struct([with_id(31, pa.field("x", pa.int64()))])))
    rows = pa.table([pa.array([{"x": 1}, {"x": 2}], place.type)], schema=pa.schema([place]))
    one, other = pair(tmp_path, rows, rows)
    kind = StructType(NestedField(31, "x", LongType()), NestedField(32, "day", LongType()))
    columns = optional("place", kind, 3), optional("day", LongType(), 5)
    for constants in ({"id_32": 7}, {"id_5": 7}):
        left_out = {"place"} if "id_32" in constants else {"day"}
        found = identical(with_constants(one, **constants), with_constants(other, **constants), *columns)
        assert found == {"place", "day"}
        others = dict.fromkeys(constants, 8)
        assert identical(with_constants(one, **constants), with_constants(other, **others), *columns) == (
            {"place", "day"} - left_out
        )


@pytest.mark.parametrize("writer", ["parquet-mr version 1.2.8", "parquet-mr", "Parquet-MR version 0.9.0"])
def test_chunks_of_writers_that_wrote_wrong_sizes_are_not_compared(tmp_path: Path, writer: str) -> None:
    one, other = pair(tmp_path, *[column("number", pa.array([1, 2, 3]))] * 2)
    own = b"parquet-cpp-arrow version"
    for file, named in ((one, writer), (other, writer)):
        path = Path(file.path)
        path.write_bytes(path.read_bytes().replace(own, named.ljust(len(own)).encode()))
    assert identical(one, other, NUMBER) == set()
    path.write_bytes(path.read_bytes().replace(writer.ljust(len(own)).encode(), b"parquet-mr version 1.17.1"))
    assert identical(other, other, NUMBER) == {"number"}
    assert identical(one, other, NUMBER) == set()


def test_a_small_share_of_identical_bytes_is_not_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = pa.array([f"{number} and a longer text" for number in range(1_000)])
    rows = column("number", pa.array([1] * 1_000)).append_column(with_id(2, pa.field("word", pa.string())), words)
    other = rows.set_column(1, rows.schema.field(1), words.take(pa.array(range(999, -1, -1))))
    one, two = pair(tmp_path, rows, other)
    assert identical(one, two, NUMBER, WORD) == {"number"}
    monkeypatch.setattr(module, "_LEAST_SHARE", 0.2)
    assert identical(one, two, NUMBER, WORD) == set()


@pytest.mark.parametrize("place", [0, 1])
def test_an_error_names_the_file_that_it_is_about(tmp_path: Path, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files = pair(tmp_path, *[column("number", pa.array([1, 2, 3]))] * 2)
    compare = file_reader.identical_columns

    def lost_then_compared(*args: Any, **options: Any) -> Any:
        Path(files[place].path).unlink()
        return compare(*args, **options)

    monkeypatch.setattr(file_reader, "identical_columns", lost_then_compared)
    with pytest.raises(FileGoneError, match=f"data file {files[place].path} of table db.t is gone"):
        identical(*files, NUMBER)


def test_other_formats_are_not_opened(tmp_path: Path) -> None:
    orc = DataFile(path=str(tmp_path / "gone"), file_format="ORC", spec_id=0, record_count=2, file_size_bytes=9)
    assert identical(orc, orc, NUMBER) == set()


@pytest.mark.parametrize(("first", "stop", "expected"), [(0, 1, {"number", "word"}), (1, 2, {"number"})])
def test_only_the_row_groups_to_read_are_compared(tmp_path: Path, first: int, stop: int, expected: set[str]) -> None:
    fields = pa.schema([with_id(1, pa.field("number", pa.int64())), with_id(2, pa.field("word", pa.string()))])
    words = [f"word {number}" for number in range(40)]
    tables = [
        pa.table({"number": range(40), "word": found}).cast(fields) for found in (words, [*words[:-1], "other 9"])
    ]
    files = [
        replace(file, record_count=20 * (stop - first), row_groups=RowGroups(first=first, stop=stop, size_bytes=1))
        for file in pair(tmp_path, *tables, row_group_size=20)
    ]
    assert identical(*files, NUMBER, WORD) == expected
