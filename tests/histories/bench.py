"""The place of a history: a table, a writer that edits it, and Iceberg's own reader of its states."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, TypeVar

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.types import PrimitiveType

from histories.column_values import Seeds
from histories.history import Operation
from histories.schema_edits import PartitionEdits, SchemaEdits
from histories.states import StateCache
from histories.trace import Trace

__all__ = ["Bench", "BenchOperation", "pick"]

Item = TypeVar("Item")
BenchOperation = Callable[..., None]
"""Called with the bench and the arguments of the operation."""


class Bench(ABC):
    """One table. Operations come by name; what a writer refuses is counted, not raised."""

    operations: ClassVar[Mapping[str, BenchOperation]]
    refusals: ClassVar[tuple[type[Exception], ...]]
    unpartitionable: ClassVar[tuple[type[PrimitiveType], ...]] = ()
    """Types of columns by which the writer cannot partition."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.states = StateCache(self.trace, self.rows_at)
        self.undroppable_ids: set[int] = set()
        self.applied: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.last_refusal = ""
        self.deliver: Callable[[], None] = lambda: None

    @property
    @abstractmethod
    def identifier(self) -> str:
        """The table's name in its catalog."""

    @abstractmethod
    def catalog_properties(self) -> Mapping[str, str]:
        """The catalog as a pipeline file names it."""

    def discard(self) -> None:
        """Delete the table's files; the catalog goes with its folder."""
        shutil.rmtree(self.table().location().removeprefix("file://").removeprefix("file:"), ignore_errors=True)

    def apply(self, operation: Operation) -> None:
        """Do one thing and take down what came of it; what the pipeline refuses is raised."""
        if operation.name == "deliver":
            self.deliver()
        else:
            try:
                self.operations[operation.name](self, **operation.arguments)
            except self.refusals as refusal:
                self.refused[operation.name] += 1
                self.last_refusal = f"{operation.name}: {refusal}"
                return
            finally:
                self.trace.observe(self.table())
        self.applied[operation.name] += 1

    @abstractmethod
    def table(self) -> Table:
        """The table as it is now."""

    @abstractmethod
    def rows_at(self, snapshot_id: int) -> pa.Table:
        """The state at a snapshot as Iceberg's own reader had it then, in the full schema of then."""

    @abstractmethod
    def append(self, files: Sequence[Sequence[Seeds]]) -> None:
        """Append rows, as one file for each list (and partition)."""

    @abstractmethod
    def edit_schema(self) -> AbstractContextManager[SchemaEdits]:
        """One schema change, committed at the end."""

    @abstractmethod
    def edit_partitions(self) -> AbstractContextManager[PartitionEdits]:
        """One change of the partition spec, committed at the end."""

    @abstractmethod
    def roll_back(self, snapshot_id: int) -> None:
        """Go back to an ancestor of the head."""

    @abstractmethod
    def set_current(self, snapshot_id: int) -> None:
        """Go to any snapshot."""

    @abstractmethod
    def expire(self, snapshot_ids: Sequence[int]) -> None:
        """Forget snapshots."""

    def head(self) -> int | None:
        """The current snapshot of main."""
        snapshot = self.table().current_snapshot()
        return snapshot.snapshot_id if snapshot else None


def pick(items: Sequence[Item], number: int) -> Item:
    """The item that a number stands for; ValueError where there is none."""
    if not items:
        raise ValueError("there is nothing to choose from")
    return items[number % len(items)]
