"""The extents of all ranges in the store: written once, read section by section."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

from icefloe.documents import digest_of
from icefloe.shuffle.extents import RangeExtents, ShuffledFile
from icefloe.shuffle.extents_file import (
    ExtentsHead,
    SectionTable,
    decode_head,
    decode_section,
    encode_head,
    encode_section,
)
from icefloe.storage.local_folders import on_local_disk, scratch_file, task_folder
from icefloe.storage.store import Store

__all__ = ["StoredExtents", "store_extents"]

_CANNOT_KEEP: Final = "the extents of the reduce ranges cannot be written to local disk"
_INLINE_BYTES: Final = 256 << 10
"""Sections up to here follow the head: one request writes all, one reads all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExtents:
    """The extents of a shuffle, of which a reduce task reads the section of its range.

    Attributes:
        inline: the sections, if they follow the head.
    """

    store: Store
    head: ExtentsHead
    inline: bytes

    @classmethod
    def open(cls, store: Store, key: str) -> Self:
        """Reads the head.

        Raises:
            KeyMissingError: there are no extents.
            CorruptExtentsError: they are damaged.
            TerminalError: another release wrote them.
        """
        data = store.get(key)
        head, size_bytes = decode_head(data)
        return cls(store=store, head=head, inline=data[size_bytes:])

    def of(self, range_id: int) -> RangeExtents:
        """The extents of one range.

        Raises:
            KeyMissingError: the sections are gone.
            CorruptExtentsError: they are damaged.
        """
        start, stop = self.head.section(range_id)
        if not self.head.sections_key:
            return decode_section(self.inline[start:stop], self.head, range_id)
        [section] = self.store.get_ranges(self.head.sections_key, [(start, stop)])
        return decode_section(section, self.head, range_id)


def store_extents(
    store: Store,
    key: str,
    extents: Iterable[RangeExtents],
    files: Sequence[ShuffledFile],
    *,
    has_parts: bool = False,
    has_embedded: bool = False,
    disk: Path | None = None,
) -> None:
    """Writes the extents of all ranges, in their order; never holds more than one range.

    Args:
        store: the place of the shuffle's map outputs.
        key: key of the head, which is written last.
        extents: extents of each range.
        files: data files that the extents name by place.
        has_parts: True if some ranges are of parts of a partition.
        has_embedded: True if some extents have blocks.
        disk: local folder for sections; None: the machine's temporary folder.

    Raises:
        TransientError: local disk or the store is full or broken.
    """
    table, small = SectionTable(has_parts=has_parts, has_embedded=has_embedded), bytearray()
    with ExitStack() as owned:
        file: BinaryIO | None = None
        for each in extents:
            section = encode_section(each, has_parts=has_parts, has_embedded=has_embedded)
            table.add(each, section)
            with on_local_disk(_CANNOT_KEEP):
                if file is None and table.size_bytes > _INLINE_BYTES:
                    path = owned.enter_context(task_folder("coalesce", disk)) / "sections"
                    file = owned.enter_context(scratch_file(path.open("wb")))
                    file.write(small)
                if file is None:
                    small += section
                else:
                    file.write(section)
        head = ExtentsHead.of(table, files)
        if file is None:
            store.put(key, encode_head(head) + small)
            return
        with on_local_disk(_CANNOT_KEEP):
            file.close()
        # Called after their content: a writer that comes late, from other attempts of the map tasks, replaces the head
        # by one that names its own sections, and never sections under a head that has other places for them.
        sections_key = f"{key}.{digest_of(encode_head(head))[:16]}.sections"
        store.put(sections_key, path)
        store.put(key, encode_head(ExtentsHead.of(table, files, sections_key=sections_key)))
