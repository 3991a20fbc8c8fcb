from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from iceberg.far_io import FarIO
from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.data_file import DeleteFile
from icefloe.iceberg.deletes.deleted_positions import DeletionVectors, decode_deletion_vector
from support.tables.written_deletes import MAGIC, blob_of, framed, write_blob, write_deletion_vector
from support.tables.written_tables import local_io, reader

DATA_FILE = "s3://lake/t/data.parquet"

# Written by BaseDVFileWriter of Iceberg 1.11.0 (iceberg-spark-runtime-4.1_2.13): array containers; a run container.
ARRAYS = bytes.fromhex(
    "00000048d1d339640200000000000000000000003a300000020000000000030001000000180000002000000000000300"
    "040005007011010000003a3000000100000000000000100000000500e24f019a"
)
RUNS = bytes.fromhex("0000001fd1d339640100000000000000000000003b300000010000e70301000000e703a8434861")
GOLDEN = [(ARRAYS, BitMap64([0, 3, 4, 5, 70_000, 2**32 + 5])), (RUNS, BitMap64(range(1000)))]


def read_by(io: FileIO) -> Callable[[DeleteFile], BitMap64]:
    return DeletionVectors(reader(io), memory_bytes=1 << 20).read


def read(delete_file: DeleteFile) -> BitMap64:
    return read_by(local_io())(delete_file)


@pytest.mark.parametrize(("blob", "positions"), GOLDEN, ids=["arrays", "runs"])
def test_vectors_that_iceberg_wrote_are_read(tmp_path: Path, blob: bytes, positions: BitMap64) -> None:
    written = write_blob(tmp_path / "dv.puffin", blob, data_file=DATA_FILE, record_count=len(positions))
    assert read(written) == positions


@pytest.mark.parametrize(
    "positions",
    [BitMap64(), BitMap64([0]), BitMap64(range(0, 300_000, 2)), BitMap64([2**31, 2**33 + 1, 2**62])],
    ids=["none", "the first", "many", "far ones"],
)
def test_only_its_own_part_of_a_shared_file_is_looked_at(tmp_path: Path, positions: BitMap64) -> None:
    blob, other = blob_of(positions), blob_of(BitMap64([9]))
    written = write_blob(
        tmp_path / "dv.puffin",
        blob,
        data_file=DATA_FILE,
        record_count=len(positions),
        before=b"PFA1" + other,
        after=other,
    )
    assert read(written) == positions


def test_any_flipped_bit_is_damage() -> None:
    for place in range(len(ARRAYS)):
        for bit in range(8):
            damaged = bytearray(ARRAYS)
            damaged[place] ^= 1 << bit
            with pytest.raises(ValueError, match=r"^its? "):
                decode_deletion_vector(bytes(damaged), record_count=6)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"PFA1" + bytes(8), "begins with 50464131 instead of d1d33964"),
        (MAGIC + b"\xff" * 8, "its bitmap cannot be decoded"),
        (MAGIC + (1).to_bytes(8, "little") + b"\xff" * 40, "its bitmap cannot be decoded"),
        (MAGIC, "it has 12 bytes, fewer than 20"),
    ],
    ids=["another magic", "too many bitmaps", "no bitmap", "nothing"],
)
def test_content_that_is_no_vector_is_damage_although_its_checksum_matches(body: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        decode_deletion_vector(framed(body), record_count=0)


def test_another_number_of_positions_than_the_metadata_says_is_damage_that_names_every_file(tmp_path: Path) -> None:
    written = write_blob(tmp_path / "dv.puffin", ARRAYS, data_file=DATA_FILE, record_count=7)
    with pytest.raises(TerminalError, match=r"holds 6 positions, but the table's metadata says 7; restore") as refused:
        read(written)
    assert f"deletion vector {written.path} of data file {DATA_FILE} in table db.t is damaged" in str(refused.value)


@pytest.mark.parametrize(
    "place",
    [
        {"content_offset": None},
        {"content_size_bytes": None},
        {"content_offset": -1},
        {"content_size_bytes": -1},
        {"content_offset": 5},
        {"content_offset": 1 << 60},
        {"content_size_bytes": 1 << 60},
        {"content_size_bytes": 79},
    ],
    ids=str,
)
def test_a_place_that_is_not_that_of_the_vector_is_damage(tmp_path: Path, place: dict[str, Any]) -> None:
    written = write_blob(tmp_path / "dv.puffin", ARRAYS, data_file=DATA_FILE, record_count=6, after=b"")
    with pytest.raises(TerminalError, match="is damaged: "):
        read(replace(written, **place))


def test_a_missing_file_is_gone(tmp_path: Path) -> None:
    written = write_deletion_vector(tmp_path / "dv.puffin", BitMap64([1]), data_file=DATA_FILE)
    Path(written.path).unlink()
    with pytest.raises(FileGoneError, match=r"deletion vector .*dv.puffin of table db.t is gone"):
        read(written)


def shared_puffin(path: Path, bitmaps: Mapping[str, BitMap64]) -> list[DeleteFile]:
    """Deletion vectors in one file, for data files by path."""
    content, vectors = b"PFA1", []
    for data_file, positions in bitmaps.items():
        blob = blob_of(positions)
        vectors.append(write_blob(path, blob, data_file=data_file, record_count=len(positions), before=content))
        content += blob
    path.write_bytes(content)
    return vectors


def test_a_small_file_is_read_once_for_all_of_its_vectors(tmp_path: Path) -> None:
    bitmaps = {f"data-{number}": BitMap64([number, 7 * number, 2**33 + number]) for number in range(50)}
    io = FarIO()
    vectors = shared_puffin(tmp_path / "dv.puffin", bitmaps)
    assert list(map(read_by(io), vectors)) == list(bitmaps.values())
    assert dict(io.opened) == {"dv.puffin": 1}


def test_of_a_large_file_only_the_vector_is_read(tmp_path: Path) -> None:
    written = write_blob(
        tmp_path / "dv.puffin", ARRAYS, data_file=DATA_FILE, record_count=6, before=bytes(9 << 20), after=RUNS
    )
    assert read(written) == GOLDEN[0][1]
    with pytest.raises(TerminalError, match="is damaged: it lies at"):
        read(replace(written, content_size_bytes=1 << 60))


def test_the_vector_that_is_damaged_is_named_also_where_others_are_in_its_file(tmp_path: Path) -> None:
    one, two, _ = shared_puffin(tmp_path / "dv.puffin", {name: BitMap64([1, 2]) for name in "abc"})
    assert read(one) == BitMap64([1, 2])
    with pytest.raises(TerminalError, match=r"of data file b in table db.t is damaged: it holds 2 positions, but"):
        read(replace(two, record_count=3))
