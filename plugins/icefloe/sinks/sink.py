"""The contract of a sink."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import ConfigDict

from icefloe.documents import STRICT, Hash128, SnapshotId
from icefloe.errors import TransientError

__all__ = ["BatchSummary", "CommitMessage", "DamagedPartsError", "Sink", "Written"]


class DamagedPartsError(TransientError):
    """What tasks delivered is not there any more as they wrote it. Fact: ``numbers`` of the tasks, to be run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a sink says of one task's write.

    Attributes:
        size_bytes: bytes written to the destination.
        details: what the sink needs at commit, for example file names; JSON values only.
    """

    size_bytes: int
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """One task's delivered changes: what its sink wrote, and what went in.

    Attributes:
        number: of the task, a map id or a range id; a batch has each number at most once.
        counts: rows by change type.
        hash_sum: the signed sum of the row hashes, deletes and before images negative, mod 2^128.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    number: int
    rows: int
    counts: Mapping[str, int]
    hash_sum: Hash128
    size_bytes: int
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """What a sink is told about a whole batch when it commits it."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    pipeline: str
    table: str
    batch_number: int
    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    steps: int
    rows: int
    counts: Mapping[str, int]
    hash_sum: Hash128


class Sink(ABC):
    """A destination of changes. Tasks write, one process commits.

    `write` runs in many processes at once, may be repeated for the same number, and may still run in a zombie after
    the batch is committed; each sink says in docs/sinks.md what a reader may trust then.
    """

    @abstractmethod
    def check(self) -> None:
        """Proves that the destination can be written; leaves nothing behind.

        Raises:
            TerminalError: it cannot, and why.
        """

    @abstractmethod
    def claim(self, *, owner: str, pipeline: str, table: str) -> None:
        """Makes the destination this owner's, before its first batch is opened; repeating it has no further effect.

        Args:
            owner: the id of the checkpoint whose batches are delivered.
            pipeline: its name, for people.
            table: likewise.

        Raises:
            TerminalError: it is another owner's.
        """

    @abstractmethod
    def refuse_other_owner(self, *, owner: str, pipeline: str, table: str) -> None:
        """Stops where `claim` would, and changes nothing: asked before the checkpoint of a new pipeline is begun.

        Raises:
            TerminalError: the destination is another owner's.
        """

    @abstractmethod
    def refuse_other_batch(
        self,
        *,
        pipeline: str,
        table: str,
        batch_number: int,
        after_snapshot_id: int | None,
        up_to_snapshot_id: int | None,
    ) -> None:
        """Stops a batch before it is opened, where the destination holds a whole one of its number already.

        One of the same range is let through: delivering it again changes nothing.

        Raises:
            TerminalError: it belongs to another pipeline, or to an earlier life of this one.
        """

    @abstractmethod
    def write(self, *, batch_number: int, number: int, schema: pa.Schema, changes: Iterable[pa.RecordBatch]) -> Written:
        """Writes the changes of one task; an exception raised by ``changes`` leaves nothing visible.

        Args:
            batch_number: the batch.
            number: of the task.
            schema: of every record batch: the change columns, then the table's.
            changes: in delivery order.
        """

    @abstractmethod
    def commit(self, summary: BatchSummary, messages: Sequence[CommitMessage]) -> None:
        """Makes the batch whole for readers; repeating it has no further effect, also with the changes cut otherwise.

        Raises:
            DamagedPartsError: what some tasks delivered is gone or cut; nothing was made whole.
        """
