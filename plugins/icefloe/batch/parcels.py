"""Parcels: blocks on their way through the shuffle of another engine, as rows that it need not understand.

Every sender writes to every recipient, if only that it has nothing for it. So a recipient that has something knows
whether all is there:

    recipient   sender   number   content
    0           0        0        the header of a block: its rows, bytes, checksum and sums
    0           0        1        the first bytes of the block
    0           0        2        the next ones
    0           1        0        the header of an empty block
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import pyarrow as pa

from icefloe.documents import Document, dump_document, load_document
from icefloe.errors import TransientError
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.index_file import OrdinalSums
from icefloe.storage.local_folders import on_local_disk

_CONTENT_BYTES: Final = 8 << 10
"""Spark hands 10,000 rows at once to a Python worker, however large they are."""
_BATCH_ROWS: Final = 1 << 10
_KEY: Final = "parcels"
_SCHEMA: Final = pa.schema(
    [("recipient", pa.int32()), ("sender", pa.int32()), ("number", pa.int32()), ("content", pa.binary())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParcelHeader(Document):
    """A block, which follows the last one in its file."""

    rows: int
    size_bytes: int
    crc32: int
    largest_block_bytes: int  # uncompressed, of the file
    ordinals: tuple[OrdinalSums, ...]


class ParcelRow(NamedTuple):
    """A row of a parcel."""

    recipient: int
    sender: int
    number: int
    content: bytes


def sent(sender: int, file: BinaryIO, headers: Iterable[ParcelHeader]) -> Iterator[pa.RecordBatch]:
    """The blocks of a file, from its position on, as parcels: one for each recipient in turn."""
    rows = _rows(sender, file, headers)
    while some := [*islice(rows, _BATCH_ROWS)]:
        yield pa.RecordBatch.from_pylist([row._asdict() for row in some], schema=_SCHEMA)


def _rows(sender: int, file: BinaryIO, headers: Iterable[ParcelHeader]) -> Iterator[ParcelRow]:
    for recipient, header in enumerate(headers):
        yield ParcelRow(recipient, sender, 0, dump_document(header))
        for number, first in enumerate(range(0, header.size_bytes, _CONTENT_BYTES), 1):
            with on_local_disk("a shuffle block cannot be read back"):
                content = file.read(min(_CONTENT_BYTES, header.size_bytes - first))
            yield ParcelRow(recipient, sender, number, content)


def received(
    batches: Iterable[pa.RecordBatch], folder: Path, *, mappers: int, movers: int = 0
) -> Iterator[tuple[int, RangeExtents, RangeExtents]]:
    """The blocks of one recipient after another, in a file of the folder until the next is asked for.

    Args:
        batches: parcels, ordered by recipient, sender and number.
        mappers: number of senders of rows.
        movers: number of senders of moves, which are numbered on from the mappers.

    Returns:
        Recipient, extents of rows, and extents of moves.

    Raises:
        TransientError: rows of a parcel, or all of it, were lost or came twice.
    """
    columns = (map(pa.Array.to_pylist, batch.columns) for batch in batches)
    rows = (ParcelRow(*row) for batch in columns for row in zip(*batch, strict=True))
    for recipient, of_recipient in groupby(rows, key=itemgetter(0)):
        found: list[tuple[int, int, ParcelHeader]] = []
        with on_local_disk("parcels of the shuffle cannot be kept"), (folder / _KEY).open("wb") as file:
            for sender, of_sender in groupby(of_recipient, key=itemgetter(1)):
                start, header = file.tell(), _unpacked(of_sender, file)
                if header is None or sender != len(found) or start + header.size_bytes != file.tell():
                    break
                found.append((sender, start, header))
        if len(found) != mappers + movers:
            raise TransientError(
                f"the shuffle lost or doubled a parcel: partition {recipient} has the whole ones of the first "
                f"{len(found)} of {mappers + movers} tasks; run again, and report it if it happens again"
            )
        yield recipient, _extents(recipient, found[:mappers]), _extents(recipient, found[mappers:])


def _unpacked(rows: Iterable[ParcelRow], file: BinaryIO) -> ParcelHeader | None:
    """The header; the block goes to the file. None if rows are out of order."""
    header = None
    for number, row in enumerate(rows):
        if row.number != number:
            return None
        if header is None:
            header = load_document(ParcelHeader, row.content, what="the header of a parcel")
        else:
            file.write(row.content)
    return header


def _extents(recipient: int, found: list[tuple[int, int, ParcelHeader]]) -> RangeExtents:
    return RangeExtents.of_blocks(
        recipient,
        blocks=(
            (_KEY, sender, header.crc32, start, header.size_bytes, header.rows, header.largest_block_bytes, stop)
            for sender, start, header in found
            if header.rows
            for stop in [start + header.size_bytes]
        ),
        ordinals=(sums for _, _, header in found for sums in header.ordinals),
    )
