"""The manifest of a batch in the files sink."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from icefloe.documents import STRICT, Hash128
from icefloe.sinks.sink import BatchSummary

__all__ = ["Manifest", "Part"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The changes of one task, in one file or, past ``target_file_bytes``, several.

    Attributes:
        names: of the files, in the order of the changes.
        size_bytes: of all of them.
        hash_sum: the signed sum of the row hashes, deletes and before images negative, mod 2^128.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    names: tuple[str, ...]
    rows: int
    size_bytes: int
    hash_sum: Hash128


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``_manifest.json``: written last, says the batch is whole, and is what readers trust."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    format: Literal["parquet"] = "parquet"
    batch: BatchSummary
    parts: tuple[Part, ...]
