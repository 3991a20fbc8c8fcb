"""Footers that Arrow cannot look at without ending the process, among them those with encrypted columns."""

import base64
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType

from icefloe.errors import NotBuiltError
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.parquet_footer import KeptFooters, read_footer
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.unreadable import EncryptedRowsError, UndecodableError
from support.pipelines.workspace import python
from support.tables.written_tables import optional, reader, with_id, write_file

NESTED: Final = pa.table({"id": [1, 2], "text": ["a", None], "list": [[{"a": 1, "b": [1, None]}], None]})
TYPES: Final = NESTED.append_column("flag", [[True, None]]).append_column(
    "price", pa.array([1, 2], pa.decimal128(9, 2))
)
OPENING: Final = """
import sys, pyarrow as pa
from icefloe.iceberg.files.parquet_file import ParquetRows
ParquetRows.open(pa.OSFile(sys.argv[1]), batch_rows=10, pre_buffer=False, dictionary_columns=False)
"""
LOOKING: Final = "import sys, pyarrow.parquet as pq; pq.ParquetFile(sys.argv[1]).metadata.row_group(0).column(0)"
WRITING: Final = """
import sys, pyarrow as pa, pyarrow.parquet as pq
pq.ParquetFile(sys.argv[1]).metadata.write_metadata_file(pa.BufferOutputStream())
"""
STRIKING: Final = """
import random, sys
from pathlib import Path
import pyarrow as pa
from icefloe.iceberg.files.parquet_footer import read_footer
from icefloe.iceberg.unreadable import EncryptedRowsError, UndecodableError

content = Path(sys.argv[1]).read_bytes()
length = int.from_bytes(content[-8:-4], "little")
start, footer = content[: -8 - length], content[-8 - length : -8]
likely = bytes.fromhex("00 01 02 0c 10 15 16 19 1c 2c 3c 5c 8c 9c f1 fc fe ff")
chance = random.Random(0)
refused = 0
for _ in range(20_000):
    place, length = chance.randrange(len(footer)), chance.randrange(4)
    struck = footer[:place] + bytes(chance.choices(likely, k=chance.randrange(5))) + footer[place + length :]
    try:
        metadata = read_footer(pa.BufferReader(start + struck + len(struck).to_bytes(4, "little") + b"PAR1"))
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                metadata.row_group(group).column(column).statistics
    except (EncryptedRowsError, UndecodableError, UnicodeDecodeError, pa.ArrowInvalid, OSError):
        refused += 1
print(refused)
"""

TWO_COLUMNS: Final = pa.table(
    [[1, 2], ["x", "y"]],
    schema=pa.schema([with_id(1, pa.field("id", pa.int64())), with_id(2, pa.field("name", pa.string()))]),
)
COLUMNS: Final = (optional("id", LongType(), 1), optional("name", StringType(), 2))
SCHEMA: Final = Schema(*COLUMNS)


def footer_of(path: Path) -> pq.FileMetaData:
    return read_footer(pa.OSFile(str(path)))


@pytest.mark.parametrize(
    "options", [{}, {"row_group_size": 1}, {"write_statistics": False}, {"version": "1.0"}], ids=str
)
def test_a_footer_that_arrow_wrote_is_fit(tmp_path: Path, options: dict[str, Any]) -> None:
    pq.write_table(NESTED, tmp_path / "file", **options)
    assert footer_of(tmp_path / "file").equals(pq.read_metadata(tmp_path / "file"))


def test_a_footer_that_is_longer_than_most_is_read_whole(tmp_path: Path) -> None:
    pq.write_table(pa.table({f"column {number}": [number] for number in range(1000)}), tmp_path / "file")
    assert footer_of(tmp_path / "file").num_columns == 1000


def test_a_histogram_that_does_not_fit_its_column_is_damage(tmp_path: Path) -> None:
    # A list of the two numbers 0 and 2, one for each level, becomes a list of the number 2, in as many bytes.
    histogram, damaged = b"\x19\x26\x00\x04", b"\x19\x16\x84\x00"
    path = tmp_path / "file"
    pq.write_table(NESTED.select(["id"]), path)
    content = path.read_bytes()
    assert content.count(histogram) == 1
    path.write_bytes(content.replace(histogram, damaged))
    with pytest.raises(UndecodableError, match="a level histogram of a column chunk of id does not fit its column"):
        footer_of(path)
    opened = python(["-c", OPENING, str(path)])
    assert (opened.code, "UndecodableError: the type, a bound or a level histogram" in opened.err) == (1, True), opened
    # Without the check the process ends; an Arrow that raises an error instead makes the check needless.
    ended = subprocess.run([sys.executable, "-c", LOOKING, path], capture_output=True, check=False)
    assert ended.returncode < 0, ended


@pytest.mark.slow
def test_a_footer_with_any_bytes_in_it_is_refused_or_its_chunks_can_be_looked_at(tmp_path: Path) -> None:
    pq.write_table(TYPES, tmp_path / "file", row_group_size=1)
    struck = python(["-c", STRIKING, str(tmp_path / "file")])
    assert (struck.code, 5_000 < int(struck.out or 0) < 20_000) == (0, True), struck


class Keys(encryption.KmsClient):
    def __init__(self, config: Any) -> None:
        del config
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        del master_key_identifier
        return base64.b64encode(key_bytes)


def by_key(column: str, *, is_footer_plain: bool) -> Any:
    """Settings of a writer that encrypts one column."""
    factory = encryption.CryptoFactory(Keys)
    settings = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"key": [column]}, plaintext_footer=is_footer_plain
    )
    return factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)


def named(folder: Path, **options: Any) -> DataFile:
    return write_file(folder / "f.parquet", TWO_COLUMNS, **options)


PLACES: Final[dict[str, Callable[..., Any]]] = {
    "a data file": lambda folder, **options: list(reader().rows(named(folder, **options), TableSchema.of(SCHEMA))),
    "row groups": lambda folder, **options: reader().row_groups(named(folder, **options)),
}


@pytest.mark.parametrize("is_footer_plain", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_file_with_an_encrypted_column_is_refused_by_name_wherever_it_is_opened(
    tmp_path: Path, place: str, is_footer_plain: bool
) -> None:
    PLACES[place](tmp_path)
    with pytest.raises(NotBuiltError, match=r"f\.parquet is encrypted, which this release cannot read"):
        PLACES[place](tmp_path, encryption_properties=by_key("name", is_footer_plain=is_footer_plain))


ALGORITHMS: Final = {
    "as Arrow writes it": "1c 1c 00 00",
    "another algorithm": "1c 2c 00 00",
    "no algorithm": "1c 00",
    "its number in full": "0c 10 1c 00 00",
    "its number in more bytes than it needs": "0c 90 00 1c 00 00",
    "its number after a full turn": "0c 90 80 08 1c 00 00",
    "after a negative number": "01 01 9c 1c 00 00",
    "after all numbers": "01 fe ff 03" + "f1" * 2185 + "2c 1c 00 00",
}


@pytest.mark.parametrize("form", ALGORITHMS)
def test_a_footer_that_names_an_algorithm_in_any_form_is_refused(tmp_path: Path, form: str) -> None:
    written = io.BytesIO()
    pq.write_table(TWO_COLUMNS, written)
    content = written.getvalue()
    length = int.from_bytes(content[-8:-4], "little")
    # The field comes in before the end of the footer's struct.
    footer = content[-8 - length : -9] + bytes.fromhex(ALGORITHMS[form]) + b"\0"
    path = tmp_path / "f.parquet"
    path.write_bytes(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises((EncryptedRowsError, UndecodableError)):
        footer_of(path)
    # Arrow takes each form for the field; one that does not makes the form needless here.
    ended = subprocess.run([sys.executable, "-c", WRITING, path], capture_output=True, check=False)
    assert ended.returncode < 0, ended


FIELDS = (optional("number", LongType()), optional("word", StringType(), 2))
ARROW = pa.schema([with_id(1, pa.field("number", pa.int64())), with_id(2, pa.field("word", pa.string()))])
ROWS = pa.table([list(range(600)), [f"word {number % 3}" for number in range(600)]], schema=ARROW)


def words(file: DataFile, files: FileReader, *names: str, is_encoded: bool = False) -> list[str]:
    schema = TableSchema.of(Schema(*(field for field in FIELDS if not names or field.name in names)))
    read = files.rows(file, schema, dictionary_columns=is_encoded)
    return [word for _, batch in read for word in batch.column("word").to_pylist()]


@pytest.mark.parametrize("is_encoded", [False, True], ids=["plain first", "dictionaries first"])
def test_a_file_that_is_opened_again_gives_the_same_rows_without_its_footer(tmp_path: Path, is_encoded: bool) -> None:
    file = write_file(tmp_path / "a.parquet", ROWS, row_group_size=250)
    files, expected = reader(), ROWS["word"].to_pylist()
    assert words(file, files, is_encoded=is_encoded) == expected
    lost = bytearray((tmp_path / "a.parquet").read_bytes())
    lost[-200:] = bytes(200)
    (tmp_path / "a.parquet").write_bytes(lost)
    assert words(file, files, "word", is_encoded=not is_encoded) == expected
    [batch] = files.rows_at(file, pa.array([7, 8]).to_numpy(), TableSchema.of(Schema(*FIELDS)))
    assert batch.to_pylist() == ROWS.slice(7, 2).to_pylist()


def test_footers_that_were_added_first_make_room_for_others(tmp_path: Path) -> None:
    files = [write_file(tmp_path / f"{name}.parquet", ROWS) for name in "abc"]
    sizes = KeptFooters()
    assert words(files[0], reader(footers=sizes))
    kept = sizes.get(files[0].path)
    assert kept is not None
    footers = KeptFooters(max_bytes=2 * kept.metadata.serialized_size)
    for file in (*files, files[1]):
        words(file, reader(footers=footers))
    assert [footers.get(file.path) is not None for file in files] == [False, True, True]
    small = KeptFooters(max_bytes=1)
    assert words(files[0], reader(footers=small))
    assert small.get(files[0].path) is None
