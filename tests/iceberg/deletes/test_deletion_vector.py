from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.data_file import DeleteFile
from icefloe.iceberg.deletes.deletion_vector import decode_deletion_vector, read_deletion_vectors
from support.tables.written_deletes import MAGIC, blob_of, framed, write_blob, write_deletion_vector
from support.tables.written_tables import local_io

DATA_FILE = "s3://lake/t/data.parquet"

# Written by BaseDVFileWriter of Iceberg 1.11.0 (iceberg-spark-runtime-4.1_2.13): array containers; a run container.
ARRAYS = bytes.fromhex(
    "00000048d1d339640200000000000000000000003a300000020000000000030001000000180000002000000000000300"
    "040005007011010000003a3000000100000000000000100000000500e24f019a"
)
RUNS = bytes.fromhex("0000001fd1d339640100000000000000000000003b300000010000e70301000000e703a8434861")
GOLDEN = [(ARRAYS, BitMap64([0, 3, 4, 5, 70_000, 2**32 + 5])), (RUNS, BitMap64(range(1000)))]


def read(delete_file: DeleteFile) -> BitMap64:
    [positions] = read_deletion_vectors([delete_file], io=local_io(), table="db.t")
    return positions


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


def test_any_cut_is_damage() -> None:
    for length in range(len(ARRAYS)):
        with pytest.raises(ValueError, match=r"^its? "):
            decode_deletion_vector(ARRAYS[:length], record_count=6)


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


def test_a_cut_file_is_damaged(tmp_path: Path) -> None:
    written = write_blob(tmp_path / "dv.puffin", ARRAYS, data_file=DATA_FILE, record_count=6)
    Path(written.path).write_bytes(Path(written.path).read_bytes()[:50])
    with pytest.raises(TerminalError, match="it lies at 4 with 80 bytes in a file of 50"):
        read(written)


def test_a_missing_file_is_gone(tmp_path: Path) -> None:
    written = write_deletion_vector(tmp_path / "dv.puffin", BitMap64([1]), data_file=DATA_FILE)
    Path(written.path).unlink()
    with pytest.raises(FileGoneError, match=r"deletion vector .*dv.puffin of table db.t is gone"):
        read(written)
