"""Manifests that are damaged, or made to do harm: PyIceberg's decoder alone ends the process at some of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe.iceberg.catalog.catalog_errors import reading_metadata
from support.fakes.peak_memory import run_apart
from support.tables.avro_writing import CODECS, SYNC, container, record, sized, varint, write_avro

HUGE: Final = 1 << 40
READER: Final = """
from iceberg.manifests.test_hostile_manifests import entries_of
from icefloe.errors import TerminalError
from support.fakes.peak_memory import peak_kib
for path in given:
    try:
        found = len(entries_of(path))
    except TerminalError as error:
        found = error.sentence
    print(json.dumps([found, peak_kib()]), flush=True)
"""
BOUNDS: Final = {"type": "array", "logicalType": "map", "items": record(("key", "int", 126), ("value", "bytes", 127))}
COUNTS: Final = {"type": "array", "logicalType": "map", "items": record(("key", "int", 119), ("value", "long", 120))}
NOTHING: Final = {"type": "record", "name": "nothing", "fields": []}


def manifest_schema(*further: tuple[str, Any, int]) -> dict[str, Any]:
    file = record(
        ("file_path", "string", 100), ("file_format", "string", 101),
        ("partition", {"type": "record", "name": "r102", "fields": []}, 102),
        ("record_count", "long", 103), ("file_size_in_bytes", "long", 104),
        ("value_counts", COUNTS, 109), ("lower_bounds", BOUNDS, 125), *further, name="r2",
    )  # fmt: skip
    return record(("status", "int", 0), ("data_file", file, 2))


FILE: Final = ("a path", "parquet", (), 7, 9, [(1, 7)] * 3, [(1, b"k"), (2, b"v" * 8)])
BEFORE_COUNTS: Final = varint(1) + sized(b"p") + sized(b"avro") + varint(7) + varint(9)


def entries_of(path: str) -> list[Any]:
    """As the planner reads them."""
    from icefloe.iceberg.manifests.manifest_avro import read_manifest_entries
    from support.tables.written_tables import local_io

    with reading_metadata("db.t", "manifest", path):
        return [
            (entry.status, dict(entry.file[125] or {}), *(entry.file[key] for key in (100, 103)))
            for entry in read_manifest_entries(local_io(), path)
        ]


def manifest(schema: Any, content: bytes, *, rows: int = 1, codec: str = "null") -> bytes:
    return container(schema, (rows, content), codec=codec)


def doubled() -> dict[str, Any]:
    inner: list[tuple[str, Any, int]] = [("r0", record(("x", "int", 1000), name="n0"), 2000)]
    inner += [
        (f"r{n}", record(("a", f"n{n - 1}", 3000 + n), ("b", f"n{n - 1}", 4000 + n), name=f"n{n}"), 2000 + n)
        for n in range(1, 60)
    ]
    return manifest_schema(*inner)


HOSTILE: Final[dict[str, Callable[[], bytes]]] = {
    "a path of 16 MiB in 12 bytes": lambda: manifest(manifest_schema(), varint(1) + varint(1 << 24) + b"path"),
    "a path of a TiB": lambda: manifest(manifest_schema(), varint(1) + varint(HUGE) + b"path"),
    "a path of negative length": lambda: manifest(manifest_schema(), varint(1) + varint(-9) + b"path"),
    "bounds after the end": lambda: manifest(
        manifest_schema(), BEFORE_COUNTS + b"\0" + varint(1) + varint(1) + varint(1 << 26) + b"b"
    ),
    "a TiB of bounds": lambda: manifest(manifest_schema(), BEFORE_COUNTS + b"\0" + varint(HUGE)),
    "millions of counts": lambda: manifest(manifest_schema(), BEFORE_COUNTS + varint(1 << 24)),
    "more entries than bytes": lambda: manifest(manifest_schema(), b"", rows=HUGE),
    "a block after the end": lambda: manifest(manifest_schema(), b"")[:-18] + varint(1) + varint(1 << 26),
    "elements of nothing": lambda: manifest(
        manifest_schema(("x", {"type": "array", "items": NOTHING, "element-id": 901}, 900)),
        BEFORE_COUNTS + b"\0\0" + varint(1 << 20) + b"\0",
    ),
    "types that name each other twice": lambda: manifest(doubled(), b""),
    "a schema nested 100,000 deep": lambda: manifest(manifest_schema(), b"").replace(
        b'"long"', b'{"type":' * 100_000 + b'"long"' + b"}" * 100_000, 1
    ),
    "deflate": lambda: manifest(manifest_schema(), CODECS["deflate"](bytes(300 << 20)), codec="deflate", rows=1 << 28),
    "a path that shrinks to nothing": lambda: manifest(
        manifest_schema(),
        CODECS["zstandard"](varint(1) + sized(b"p" * (100 << 20))),
        codec="zstandard",
    ),
    "bytes that are not deflated": lambda: manifest(manifest_schema(), b"\xff" * 100, codec="deflate"),
    "bytes that are not zstandard": lambda: manifest(manifest_schema(), b"\xff" * 100, codec="zstandard"),
    "snappy": lambda: manifest(manifest_schema(), b"\xff\xff\xff\xff\x0f" + bytes(12), codec="snappy", rows=1 << 31),
    "an unknown codec": lambda: manifest(manifest_schema(), b"", codec="unheard"),
}


@pytest.mark.slow
def test_a_hostile_manifest_ends_in_one_sentence(tmp_path: Path) -> None:
    paths = []
    for number, make in enumerate(HOSTILE.values()):
        paths.append(str(tmp_path / f"{number}.avro"))
        Path(paths[-1]).write_bytes(make())
    found = dict(zip(HOSTILE, run_apart(READER, paths), strict=True))
    assert {name: said for name, (said, _) in found.items() if "is damaged or of an unknown" not in str(said)} == {}
    assert max(peak for _, peak in found.values()) < 1_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_manifests_of_every_codec_are_read_and_empty_blocks_are_passed_over(tmp_path: Path, codec: str) -> None:
    write_avro(tmp_path / "m.avro", manifest_schema(), [(1, FILE)] * 6, block_rows=2, codec=codec)
    content = (tmp_path / "m.avro").read_bytes()
    (tmp_path / "m.avro").write_bytes(content.replace(SYNC, SYNC + b"\0\0" + SYNC))
    found = entries_of(str(tmp_path / "m.avro"))
    assert found == [(1, {1: b"k", 2: b"v" * 8}, "a path", 7)] * 6
