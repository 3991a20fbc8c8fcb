"""A delete file as a task needs it: its location, and the rows that it deletes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from pydantic import ConfigDict

from icefloe.documents import STRICT
from icefloe.iceberg.data_file import Constant

__all__ = ["DeleteFile"]


class FileContent(IntEnum):
    """The content of a file, numbered as in the Iceberg spec."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A position delete file, deletion vector or equality delete file of the table; part of the plan's documents.

    Attributes:
        path: its location; several deletion vectors share one Puffin file.
        content: POSITION_DELETES (deletion vectors too) or EQUALITY_DELETES.
        file_format: PARQUET, ORC, AVRO, or PUFFIN for a deletion vector.
        spec_id: the partition spec it was written with.
        record_count: number of positions or rows that it names.
        file_size_bytes: of the whole file, also if a deletion vector is only a part of it.
        sequence_number: its data sequence number.
        referenced_data_file: the only data file it applies to, if it says so; a deletion vector always does.
        content_offset: offset of a deletion vector in its file.
        content_size_bytes: length of the deletion vector.
        equality_field_ids: the columns of an equality delete file.
        constants: by source field id (as text) the value of each identity partition, as for a data file.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    path: str
    content: FileContent
    file_format: str
    spec_id: int
    record_count: int
    file_size_bytes: int
    sequence_number: int
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_bytes: int | None = None
    equality_field_ids: tuple[int, ...] = ()
    constants: Mapping[str, Constant] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """Name of this kind of file in sentences."""
        return "deletion vector" if self.is_deletion_vector else "delete file"

    @property
    def is_deletion_vector(self) -> bool:
        """True if it is a bitmap in a Puffin file (V3)."""
        return self.file_format == "PUFFIN"

    @property
    def size_bytes(self) -> int:
        """Number of bytes to read for it."""
        return self.file_size_bytes if self.content_size_bytes is None else self.content_size_bytes
