"""Avro files of a few hundred bytes that promise millions of rows or gigabytes: read in a process of their own."""

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from support.fakes.peak_memory import run_apart
from support.tables.avro_writing import SYNC, container, record, sized, varint

MIB: Final = 1 << 20
HUGE: Final = 1 << 40
READER: Final = """
from pathlib import Path

import pyarrow as pa

from iceberg.files.test_avro_file import describe, read
from icefloe.errors import TerminalError
from icefloe.iceberg.files.avro_file import AvroRows
from icefloe.iceberg.unreadable import UndecodableError
from support.fakes.peak_memory import forget_peak, peak_kib

def read_all_columns(path):
    rows = AvroRows.open(pa.OSFile(path), batch_rows=131_072)
    for _, _, groups in rows.group_runs():
        for batch in rows.batches(groups, None):
            del batch

for path, rows in given:
    forget_peak()
    try:
        read_all_columns(path)
        found = "all columns could be read"
    except UndecodableError:
        try:
            found = sum(batch.num_rows for _, batch in read(describe(Path(path), rows)))
        except TerminalError as error:
            found = error.sentence
    print(json.dumps([found, peak_kib()]), flush=True)
"""
ID: Final = ("id", "long", 1)
NULLS: Final = {"type": "array", "items": "null"}
NOTHING: Final = {"type": "record", "name": "nothing", "fields": []}
DOUBLED: Final = [
    {"type": "record", "name": f"r{n}", "fields": [{"name": f"f{side}", "type": f"r{n - 1}"} for side in "ab"]}
    for n in range(1, 40)
]


def file_of(schema: Any, *blocks: bytes, codec: str = "null", rows: int = 1) -> tuple[bytes, int]:
    """A file of blocks that each say they have so many rows."""
    return container(schema, *((rows, block) for block in blocks), codec=codec), rows * len(blocks)


def bomb(codec: str, compressed: Callable[[bytes], bytes]) -> tuple[bytes, int]:
    """Zeros: ids of one byte each, more than a block may have."""
    return file_of(record(ID), compressed(bytes(160 * MIB)), codec=codec, rows=160 * MIB)


def deflated(content: bytes) -> bytes:
    return zlib.compress(content)[2:-4]


def of_values(kind: Any, value: bytes, rows: int = 1, blocks: int = 1) -> tuple[bytes, int]:
    """Rows of an id and a value."""
    return file_of(record(ID, ("c", kind, 3)), *[(b"\0" + value) * rows] * blocks, rows=rows)


HOSTILE: Final[Mapping[str, Callable[[], tuple[bytes, int]]]] = {
    "an array of nulls": lambda: of_values(NULLS, varint(HUGE) + b"\0"),
    "an array of nulls, in blocks": lambda: of_values(NULLS, varint(2_000_000) * 200 + b"\0"),
    "arrays of nulls": lambda: of_values(NULLS, varint(1000) + b"\0", rows=100_000),
    "blocks of arrays of nulls": lambda: of_values(NULLS, varint(50_000) + b"\0", blocks=500),
    "an array with a negative count": lambda: of_values(NULLS, varint(-HUGE) + b"\0\0"),
    "an array of records of nothing": lambda: of_values({"type": "array", "items": NOTHING}, varint(HUGE) + b"\0"),
    "an array of fixed values of no bytes": lambda: of_values(
        {"type": "array", "items": {"type": "fixed", "name": "x", "size": 0}}, varint(HUGE) + b"\0"
    ),
    "an array of arrays": lambda: of_values({"type": "array", "items": NULLS}, varint(HUGE) + b"\0" * 3000),
    "a map": lambda: of_values({"type": "map", "values": "null"}, varint(HUGE) + b"\0"),
    "elements of one byte": lambda: file_of(
        record(ID, ("c", {"type": "array", "items": "int"}, 3)),
        deflated(b"\0" + varint(100 * MIB) + bytes(100 * MIB + 1)),
        codec="deflate",
    ),
    "rows of nothing": lambda: file_of(record(("n", "null", 1)), b"", rows=HUGE),
    "many blocks of rows of nothing": lambda: file_of(record(("n", "null", 1)), *[b""] * 400, rows=1_000_000),
    "more rows than bytes": lambda: file_of(record(ID), b"\0", rows=HUGE),
    "a block that is not there": lambda: (file_of(record(ID))[0] + varint(1) + varint(HUGE) + SYNC, 1),
    "a block beyond every offset": lambda: (file_of(record(ID))[0] + varint(1) + varint((1 << 62) + 1) + SYNC, 1),
    "text that is not there": lambda: of_values("string", varint(HUGE)),
    "types that name each other twice": lambda: file_of(
        record(ID, ("n", {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "int"}]}, 3),
               *[(f"c{n}", each) for n, each in enumerate(DOUBLED)])
    ),
    "deflate": lambda: bomb("deflate", deflated),
    "zstandard": lambda: bomb("zstandard", lambda content: pa.compress(content, "zstd", asbytes=True)),
    "snappy": lambda: file_of(record(ID), b"\xff\xff\xff\xff\x0f" + bytes(12), codec="snappy", rows=1 << 31),
}  # fmt: skip


def read_apart(folder: Path, *files: Callable[[], tuple[bytes, int]]) -> list[Any]:
    """The result of reading each file in another process, and the most memory of the process meanwhile, in KiB."""
    listed = []
    for number, make in enumerate(files):
        content, rows = make()
        path = folder / f"{number}.avro"
        path.write_bytes(content)
        listed.append((str(path), rows))
    return run_apart(READER, listed)


@pytest.mark.slow
def test_a_file_that_promises_more_than_it_holds_ends_in_one_sentence(tmp_path: Path) -> None:
    for found, peak_kib in read_apart(tmp_path, *HOSTILE.values()):
        require_refused(found, peak_kib)


@pytest.mark.extended
def test_a_file_of_more_blocks_than_any_file_has_ends_in_one_sentence(tmp_path: Path) -> None:
    blocks = 2_200_000
    content, _ = file_of(record(ID))
    [outcome] = read_apart(tmp_path, lambda: (content + (b"\2\2\0" + SYNC) * blocks, blocks))
    require_refused(*outcome)


def require_refused(found: Any, peak_kib: int) -> None:
    assert ".avro of table db.t cannot be decoded: " in found
    assert peak_kib < 800_000, "three times a block of 128 MiB, and what Python and its libraries need"


def test_empty_blocks_are_read(tmp_path: Path) -> None:
    from iceberg.files.test_avro_file import describe, read

    empty, block = b"\0\0" + SYNC, varint(1) + sized(varint(7)) + SYNC
    content = file_of(record(ID), rows=0)[0] + empty * 5 + block + empty + block
    (tmp_path / "f.avro").write_bytes(content)
    assert sum(batch.num_rows for _, batch in read(describe(tmp_path / "f.avro", 2))) == 2
