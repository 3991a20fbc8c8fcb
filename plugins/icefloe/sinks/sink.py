"""The contract of the sink that tasks write to; `part_sink` has that of the sinks a batch is delivered to."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import ConfigDict

from icefloe.documents import STRICT, Hash128, SnapshotId
from icefloe.errors import TransientError

__all__ = ["BatchSummary", "CommitMessage", "DamagedPartsError", "Sink"]


class DamagedPartsError(TransientError):
    """Files of tasks are missing or no longer as written. Fact: ``numbers`` of the tasks, to be run again."""

    url: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of one task's write.

    Attributes:
        size_bytes: bytes written to the destination.
        details: facts that the sink needs at commit, for example file names; JSON values only.
    """

    size_bytes: int
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """One task's delivered changes: the facts of its sink, and the counts and hash sum of the changes.

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
    """Summary of a whole batch, for the sink that commits it; ``hash_key`` is the key of its hash sums."""

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
    hash_key: Hash128


class Sink(ABC):
    """A destination of changes. Tasks write, one process commits.

    `write` runs in many processes at once, may be repeated for the same number, and may still run in a zombie after
    the batch is committed. docs/sinks.md says for each sink what a reader may trust then.
    """

    @abstractmethod
    def check(self) -> None:
        """Prove that the destination can be written; leaves nothing behind.

        Raises:
            TerminalError: it cannot be written; the error says why.
        """

    @abstractmethod
    def claim(self, *, owner: str, pipeline: str, table: str) -> None:
        """Claim the destination for an owner before its first batch is opened; repeating it has no further effect.

        Args:
            owner: the id of the checkpoint whose batches are delivered.
            pipeline: name of the pipeline, for people.
            table: name of the table, for people.

        Raises:
            TerminalError: the destination is another owner's.
        """

    @abstractmethod
    def refuse_other_owner(self, *, owner: str, pipeline: str, table: str) -> None:
        """Raise if `claim` would, without changing anything; called before the checkpoint of a new pipeline is begun.

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
    ) -> int | None:
        """Refuse a batch before it is opened, if the destination already holds a whole batch of its number.

        A batch of the same range is let through: delivering it again, under its key, changes nothing.

        Returns:
            The key of the row hashes of the batch that the destination holds; None if it holds none.

        Raises:
            TerminalError: the batch there belongs to another pipeline, or to an earlier start of this one.
        """

    @abstractmethod
    def write(self, *, batch_number: int, number: int, schema: pa.Schema, changes: Iterable[pa.RecordBatch]) -> Written:
        """Write the changes of one task; an exception raised by ``changes`` leaves nothing visible.

        Args:
            batch_number: the batch.
            number: of the task.
            schema: of every record batch: the change columns, then the table's.
            changes: in delivery order.
        """

    @abstractmethod
    def commit(self, summary: BatchSummary, messages: Sequence[CommitMessage]) -> None:
        """Make the batch whole for readers; repeating it has no further effect, even with other parts.

        Raises:
            DamagedPartsError: files that some tasks delivered are missing or cut; nothing was made whole.
        """

    @abstractmethod
    def whole(self, batch_number: int) -> BatchSummary | None:
        """Summary of a batch that is whole for readers; None if it is not. No later commit can replace it."""

    @abstractmethod
    def size_of(self, batch_number: int) -> int:
        """Bytes that tasks have written for a batch until now."""

    @abstractmethod
    def delete_before(self, batch_number: int, *, age: timedelta) -> int:
        """Delete whole batches that come before a batch and are older, and return the number of objects."""

    @abstractmethod
    def discard(self, batch_number: int) -> int:
        """Delete what tasks wrote for a batch that is whole without it, and return the number of objects.

        Readers never see these objects. A zombie may write more of them later.
        """
