"""A part of an initial load: some of the data files that are live at its snapshot."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from icefloe.documents import STRICT

__all__ = ["LoadPart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart:
    """Files of a snapshot, by their order in its manifests, which never changes; part of the documents of a batch.

    Attributes:
        first_file: number of the first file of the part.
        stop_file: number of the file after the last one.
        num_files: of the whole load.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    first_file: int
    stop_file: int
    num_files: int

    def __post_init__(self) -> None:
        """Refuse a part that no planner makes."""
        if not 0 <= self.first_file < self.stop_file <= self.num_files:
            raise ValueError(
                f"a load of {self.num_files} files has no part from file {self.first_file} to {self.stop_file}"
            )

    @property
    def is_last(self) -> bool:
        """True if the load is complete with it."""
        return self.stop_file == self.num_files

    @property
    def with_earlier(self) -> "LoadPart":
        """The files that the load has delivered with this part."""
        return LoadPart(first_file=0, stop_file=self.stop_file, num_files=self.num_files)

    def __str__(self) -> str:
        """For people, counted from 1."""
        return f"files {self.first_file + 1} to {self.stop_file} of {self.num_files}"
