"""The specification of a batch: everything that decides its plan."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from icefloe.documents import Document, Hash128, SnapshotId
from icefloe.iceberg.step import LoadPart, Step

__all__ = ["BatchSpec", "Identity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Document):
    """The identity of rows: equal identity, same row. It is chosen once, when a pipeline starts.

    Attributes:
        policy: ``pipeline`` (its identifier_columns), ``table`` (its identifier fields), ``row_id`` (the row ids of V3
            tables) or ``none``.
        columns: dotted; empty exactly when the policy is ``row_id`` or ``none``.
        field_ids: of the columns. The policy ``table`` follows them when columns are renamed. For ``pipeline`` they
            show that a name is another column now.
    """

    policy: Literal["pipeline", "table", "row_id", "none"]
    columns: tuple[str, ...] = ()
    field_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if (self.policy in ("row_id", "none")) == bool(self.columns):
            raise ValueError(f"an identity of policy {self.policy} cannot have the columns {list(self.columns)}")

    def named_by(self, name_of: Callable[[int], str | None]) -> "Identity":
        """This identity by the present names of its columns, if it follows them and all are there.

        Args:
            name_of: name of a column by its field id; None: it was dropped.
        """
        if self.policy != "table":
            return self
        names = tuple(name_of(field_id) for field_id in self.field_ids)
        present = tuple(name for name in names if name is not None)
        return replace(self, columns=present) if present and len(present) == len(names) else self

    def named_as(self, other: "Identity") -> "Identity":
        """This identity, or the other one if both are the same and only columns were renamed.

        >>> then = Identity(policy="table", columns=("id",), field_ids=(1,))
        >>> then.named_as(Identity(policy="table", columns=("order_id",), field_ids=(1,))).columns
        ('order_id',)
        """
        return other if (self.policy, self.field_ids) == (other.policy, other.field_ids) else self

    def __str__(self) -> str:
        """The identity in words."""
        if self.policy == "row_id":
            return "_row_id, inside of a step"
        return ", ".join(self.columns) or "none: INSERT and DELETE only"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec(Document):
    """The input of a planner. It leads to the same plan on any machine.

    Attributes:
        after_snapshot_id: exclusive; None: from before the table's first snapshot.
        up_to_snapshot_id: inclusive; the cursor once the batch is committed.
        steps: by ordinal.
        is_reload: True if the table is loaded again after its history expired (``on_gap: reload``).
        changes: ``each``: of each step; ``net``: of the whole batch.
        columns: columns to deliver; None: all.
        filter: ``${ENV}`` unexpanded; None: all rows count.
        partitions: of the shuffle, or ``auto``.
        target_size_bytes: of a reduce range.
        map_task_bytes: bytes of the files that a map task reads.
        target_file_bytes: of a file of the sink; None: no limit.
        cores: number of tasks that run at once.
        hash_key: key of all row hashes of the batch, drawn when it was opened: no writer of rows knew it.
    """

    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    steps: tuple[Step, ...]
    skipped_replace_snapshots: int = 0
    is_reload: bool = False
    identity: Identity
    changes: Literal["each", "net"] = "each"
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    partitions: int | Literal["auto"] = "auto"
    target_size_bytes: int = 64 * 2**20
    map_task_bytes: int = 256 * 2**20
    target_file_bytes: int | None = None
    cores: int
    hash_key: Hash128

    def __post_init__(self) -> None:
        found = [step.change_ordinal for step in self.steps]
        if found != list(range(len(found))):
            raise ValueError(f"the steps of a batch are numbered from 0 without gaps, found {found}")

    @property
    def has_properties(self) -> bool:
        """True if the changes say what the summaries of their snapshots do."""
        return any(step.commit_properties is not None for step in self.steps)

    @property
    def load_part(self) -> LoadPart | None:
        """The delivered part of a load in several batches; None for any other batch."""
        return self.steps[0].load_part if self.steps else None
