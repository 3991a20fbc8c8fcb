"""Parcels that another engine's shuffle keeps, loses, doubles and mixes up."""

import io
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.batch.parcels import ParcelHeader, received, sent
from icefloe.errors import TransientError
from icefloe.shuffle.index_file import OrdinalSums

BLOCKS = [b"", b"x" * 20_000, b"yz"]
ORDER = [("recipient", "ascending"), ("sender", "ascending"), ("number", "ascending")]


def header(block: bytes) -> ParcelHeader:
    return ParcelHeader(
        rows=len(block),
        size_bytes=len(block),
        crc32=zlib.crc32(block),
        largest_block_bytes=1 << 20,
        ordinals=(OrdinalSums(change_ordinal=0, rows=len(block), signed_count=len(block), hash_sum=7),),
    )


@pytest.fixture
def parcels() -> pa.Table:
    """Those of three tasks, as a shuffle sorts them."""
    file = b"".join(BLOCKS)
    batches = [batch for sender in range(3) for batch in sent(sender, io.BytesIO(file), map(header, BLOCKS))]
    return pa.Table.from_batches(batches).sort_by(ORDER)


def test_each_recipient_has_the_blocks_of_all_senders(parcels: pa.Table, tmp_path: Path) -> None:
    for recipient, rows, moves in received(parcels.to_batches(max_chunksize=3), tmp_path, mappers=2, movers=1):
        block, data = BLOCKS[recipient], (tmp_path / "parcels").read_bytes()
        assert data == block * 3
        for extents, senders in ((rows, [0, 1]), (moves, [2])):
            assert (extents.start, extents.stop, extents.rows) == (recipient, recipient + 1, len(senders) * len(block))
            assert [file.map_id for file in extents.files] == (senders if block else [])
            assert [sums.rows for sums in extents.ordinals] == [len(block)] * len(senders)
            for _, _, crc32, offset, length, _ in extents.blocks.tolist():
                assert zlib.crc32(data[offset : offset + length]) == crc32


def of(table: pa.Table, *row: int) -> int:
    return [tuple(each.values())[:3] for each in table.to_pylist()].index(row)


@pytest.mark.parametrize("row", [(1, 0, 0), (1, 0, 1), (1, 0, 3), (1, 1, 2), (0, 1, 0), (2, 2, 1)], ids=str)
@pytest.mark.parametrize("times", [0, 2], ids=["lost", "doubled"])
def test_a_row_that_is_lost_or_comes_twice_is_an_error(
    parcels: pa.Table, tmp_path: Path, row: tuple[int, ...], times: int
) -> None:
    place = of(parcels, *row)
    wrong = pa.concat_tables([parcels.slice(0, place), *[parcels.slice(place, 1)] * times, parcels.slice(place + 1)])
    with pytest.raises(TransientError, match=f"partition {row[0]} has the whole ones of the first {row[1]} of 3 tasks"):
        list(received(wrong.to_batches(), tmp_path, mappers=3))


@pytest.mark.parametrize("sender", [0, 1, 2])
def test_a_missing_sender_is_an_error(parcels: pa.Table, tmp_path: Path, sender: int) -> None:
    senders = parcels["sender"].to_pylist()
    others = parcels.filter(pa.array([each != sender for each in senders]))
    with pytest.raises(TransientError, match=f"partition 0 has the whole ones of the first {sender} of 3 tasks"):
        list(received(others.to_batches(), tmp_path, mappers=3))
