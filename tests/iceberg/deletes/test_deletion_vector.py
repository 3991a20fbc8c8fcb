from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from iceberg.counting_io import CountingIO
from iceberg.far_io import FAR, FarIO
from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.data_file import DeleteFile, FileContent
from icefloe.iceberg.deletes.deleted_positions import (
    VectorPrefetch,
    decode_deletion_vector,
    neighbours,
    read_deletion_vectors,
    windows,
)
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


MIB = 1 << 20


def vector(path: str, offset: int | None, size: int | None, data_file: str = "a") -> DeleteFile:
    return DeleteFile(
        path=path, content=FileContent.POSITION_DELETES, file_format="PUFFIN", spec_id=0, record_count=1,
        file_size_bytes=1 << 40, sequence_number=1, referenced_data_file=data_file, content_offset=offset,
        content_size_bytes=size,
    )  # fmt: skip


def shared_puffin(path: Path, bitmaps: Mapping[str, BitMap64]) -> dict[int, DeleteFile]:
    """Deletion vectors by number in one file, for data files by path."""
    content, vectors = b"PFA1", {}
    for number, (data_file, positions) in enumerate(bitmaps.items()):
        blob = blob_of(positions)
        written = write_blob(path, blob, data_file=data_file, record_count=len(positions), before=content)
        vectors[number] = written
        content += blob
    path.write_bytes(content)
    return {number: replace(each, file_size_bytes=len(content)) for number, each in vectors.items()}


def test_the_vectors_of_a_shared_file_are_read_at_once_and_each_once(tmp_path: Path) -> None:
    bitmaps = {f"data-{number}": BitMap64([number, 7 * number, 2**33 + number]) for number in range(50)}
    io = CountingIO()
    vectors = shared_puffin(tmp_path / "dv.puffin", bitmaps)
    held = VectorPrefetch(vectors, data_files=list(bitmaps), io=io, table="db.t", memory_bytes=MIB)
    assert not io.opened
    assert [held[number] for number in vectors] == list(bitmaps.values())
    assert dict(io.opened) == {"dv.puffin": 1}


def test_no_more_vectors_are_held_than_fit_and_each_is_still_right(tmp_path: Path) -> None:
    bitmaps = {f"data-{number}": BitMap64([number]) for number in range(9)}
    io = CountingIO()
    vectors = shared_puffin(tmp_path / "dv.puffin", bitmaps)
    size_bytes = vectors[0].size_bytes
    held = VectorPrefetch(vectors, data_files=list(bitmaps), io=io, table="db.t", memory_bytes=3 * size_bytes)
    assert [held[number] for number in vectors] == list(bitmaps.values())
    assert dict(io.opened) == {"dv.puffin": 3}
    assert held[0] == bitmaps["data-0"]
    assert dict(io.opened) == {"dv.puffin": 4}


def test_requests_go_out_together_where_storage_is_far(tmp_path: Path) -> None:
    io = FarIO(at_once=4)
    vectors = {
        number: write_deletion_vector(tmp_path / f"dv-{number}", BitMap64([number]), data_file="a")
        for number in range(8)
    }
    far = {number: replace(each, path=FAR + each.path) for number, each in vectors.items()}
    held = VectorPrefetch(far, data_files=["a"], io=io, table="db.t", memory_bytes=1)
    assert [held[number] for number in far] == [BitMap64([number]) for number in far]
    assert len(io.opened) == 8


def test_the_vector_that_is_damaged_is_named_also_where_others_were_asked_for(tmp_path: Path) -> None:
    vectors = shared_puffin(tmp_path / "dv.puffin", {name: BitMap64([1, 2]) for name in "abc"})
    damaged = vectors | {1: replace(vectors[1], record_count=3)}
    held = VectorPrefetch(damaged, data_files=["a", "b", "c"], io=CountingIO(), table="db.t", memory_bytes=MIB)
    with pytest.raises(TerminalError, match=r"of data file b in table db.t is damaged: it holds 2 positions, but"):
        held[0]
    outside = vectors | {2: replace(vectors[2], content_offset=1 << 60)}
    held = VectorPrefetch(outside, data_files=["a", "b", "c"], io=CountingIO(), table="db.t", memory_bytes=MIB)
    with pytest.raises(TerminalError, match=r"of data file c in table db.t is damaged: it lies at"):
        held[0]


def test_the_ranges_of_one_request_are_near_and_not_too_large() -> None:
    vectors = {
        0: vector("p", 4, 100), 1: vector("p", 104 + MIB, 100), 2: vector("p", 205 + 2 * MIB, 100),
        3: vector("q", 104, 7), 4: vector("q", 111, 9 * MIB), 5: vector("q", 111 + 9 * MIB, 7),
        6: vector("r", None, None),
    }  # fmt: skip
    assert list(neighbours(vectors)) == [(0, 1), (2,), (3,), (4,), (5,), (6,)]
    assert list(neighbours({0: vector("p", 50 * MIB, 7), 1: vector("p", 50 * MIB + 7, 7)})) == [(0, 1)]
    assert list(neighbours({})) == []


PLACES = st.tuples(st.sampled_from("pq"), st.integers(0, 20 * MIB), st.integers(0, 3 * MIB), st.sampled_from("abcd"))


@given(places=st.lists(PLACES, max_size=20), memory_bytes=st.integers(1, 10 * MIB))
def test_every_vector_is_in_one_window_and_in_one_request(
    places: list[tuple[str, int, int, str]], memory_bytes: int
) -> None:
    vectors = {number: vector(*place) for number, place in enumerate(places)}
    order = list(windows(vectors, ["d", "a", "b", "c"], memory_bytes=memory_bytes))
    assert sorted(number for window in order for number in window) == sorted(vectors)
    asked = ["dabc".index(vectors[number].referenced_data_file or "") for window in order for number in window]
    assert asked == sorted(asked)
    for window in order:
        data_files = {vectors[number].referenced_data_file for number in window}
        assert len(data_files) == 1 or sum(vectors[number].size_bytes for number in window) <= memory_bytes
    for one, other in pairwise(order):
        assert {vectors[n].referenced_data_file for n in one}.isdisjoint(vectors[n].referenced_data_file for n in other)
    groups = list(neighbours(vectors))
    assert sorted(number for group in groups for number in group) == sorted(vectors)
    assert all(len({vectors[number].path for number in group}) == 1 for group in groups)
