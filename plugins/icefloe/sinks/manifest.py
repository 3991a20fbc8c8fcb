"""The claim of a folder, and the manifest of each batch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.columns import ChangeType
from icefloe.documents import (
    LEFT_OUT_IF_EMPTY,
    Document,
    Hash128,
    SnapshotId,
    digest_of,
    dump_document,
    load_document,
)
from icefloe.errors import TransientError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.file_form import FileForm
from icefloe.storage.store import Store, join_url
from icefloe.units import natural

__all__ = ["BatchSummary", "CommitMessage", "DamagedPartsError", "Manifest", "Part"]

CLAIM: Final = "_icefloe.json"
"""Spark and Arrow do not take files for data whose names begin with an underscore."""
_KEYS: Final = "sink.path of its own, or a changelog.path if batches are staged there"
MANIFEST: Final = "_manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkClaim(Origin):
    """``_icefloe.json``: the writer below a folder; pipeline and table are for people."""

    version: Literal[1] = 1


def claim_path(
    store: Store, origin: Origin, *, keys: str = _KEYS, takes_over: bool = False, only_looks: bool = False
) -> None:
    """Claim a path unless another owner has it; of many claimants at once, one gets it."""
    found, claim = load_claim(store), dump_document(SinkClaim(**asdict(origin)))
    if takes_over:
        store.put(CLAIM, claim)
    elif found is None and not only_looks and not store.create(CLAIM, claim):
        found = load_claim(store)
    if found is not None and not takes_over:
        origin.refuse_other(found, place=store.url, record=join_url(store.url, CLAIM), key=keys)


def load_claim(store: Store) -> SinkClaim | None:
    """The claim of a path; None: nobody's."""
    data = store.find(CLAIM)
    return None if data is None else load_document(SinkClaim, data, what=f"the claim {join_url(store.url, CLAIM)}")


class DamagedPartsError(TransientError):
    """Files of tasks are missing or changed. Fact: ``numbers`` of the tasks, to be run again."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage(Document):
    """One task's delivered changes.

    Attributes:
        number: a map id or a range id; once in a batch.
        hash_sum: the signed sum of the row hashes, deletes and before images negative, mod 2^128.
        files: bytes of each file by its name, in the order of the changes.
        partitions: the values of each file of a partition by its name, as JSON.
    """

    number: int
    rows: int
    counts: Mapping[str, int]
    hash_sum: Hash128
    files: Mapping[str, int]
    partitions: Annotated[Mapping[str, Mapping[str, object]], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, by_type: NDArray[np.int64], *, hash_sum: int, **files: Any) -> Self:
        """The message of a task that wrote so many changes of each `ChangeType`."""
        counts = {kind.name.lower(): int(by_type[kind]) for kind in ChangeType}
        return cls(number=number, rows=sum(counts.values()), counts=counts, hash_sum=hash_sum % (1 << 128), **files)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    @classmethod
    def of_record(cls, fields: Mapping[str, object] | None, *, what: str) -> Self:
        """The message in a record of another room; ``what`` names the record, for the error."""
        return load_document(cls, json.dumps(fields).encode(), what=what)

    def for_record(self) -> Mapping[str, object]:
        """This message as a record of another room keeps it."""
        fields: Mapping[str, object] = json.loads(dump_document(self))
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary(Document):
    """Summary of a whole batch.

    Attributes:
        hash_key: the key of its hash sums.
        changed_partitions: paths of the table's partitions that may have changes; None: any may.
    """

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
    changed_partitions: tuple[str, ...] | None = None

    @classmethod
    def of(cls, messages: Sequence[CommitMessage], **facts: Any) -> Self:
        """The summary of the changes that tasks wrote; ``facts`` are the fields that no task counts."""
        names = [kind.name.lower() for kind in ChangeType]
        return cls(
            rows=sum(message.rows for message in messages),
            counts={name: sum(message.counts.get(name, 0) for message in messages) for name in names},
            hash_sum=sum(message.hash_sum for message in messages) % (1 << 128),
            **facts,
        )

    @classmethod
    def empty(cls, pipeline: str, table: str, *, batch_number: int, snapshot_id: int | None) -> Self:
        """A batch without changes as its sink gets it. No snapshot id: the pipeline begins."""
        return cls.of(
            (), pipeline=pipeline, table=table, batch_number=batch_number, after_snapshot_id=snapshot_id,
            up_to_snapshot_id=snapshot_id, steps=0, hash_key=0, changed_partitions=(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Document):
    """The changes of one task, in one file or several.

    Attributes:
        hash_sum, partitions: as in `CommitMessage`.
    """

    names: tuple[str, ...]
    rows: int
    size_bytes: int
    hash_sum: Hash128
    partitions: Annotated[Mapping[str, Mapping[str, object]], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)

    def is_whole(self, sizes: Mapping[str, int]) -> bool:
        """True if the files have all their bytes, by the sizes of the files that are there."""
        return all(name in sizes for name in self.names) and sum(sizes[name] for name in self.names) == self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(FileForm):
    """``_manifest.json``: written last; if it exists, the batch is whole.

    Attributes:
        columns: Iceberg's JSON of the delivered columns, with their field ids; empty: not known, as of a batch that
            delivers nothing.
    """

    batch: BatchSummary
    columns: Mapping[str, object]
    parts: tuple[Part, ...]

    @classmethod
    def of(
        cls, batch: BatchSummary, messages: Sequence[CommitMessage], columns: Mapping[str, object], form: FileForm
    ) -> "Manifest":
        """The manifest of the parts that tasks with changes wrote, by number."""
        parts = tuple(
            Part(
                names=tuple(each.files), rows=each.rows, size_bytes=each.size_bytes, hash_sum=each.hash_sum,
                partitions=each.partitions,
            )
            for each in sorted(messages, key=lambda each: each.number)
            if each.rows
        )  # fmt: skip
        return cls(batch=batch, columns=dict(columns), parts=parts, **asdict(form))

    @property
    def names(self) -> frozenset[str]:
        """The files of all parts and the manifest, relative to it."""
        return frozenset({MANIFEST, *(name for part in self.parts for name in part.names)})

    @staticmethod
    def is_key(key: str) -> bool:
        """True for the key of a manifest."""
        return key.endswith(f"/{MANIFEST}")

    @property
    def cut(self) -> str:
        """A digest of how the changes are divided into parts, whatever their files."""
        return digest_of(json.dumps([[part.rows, f"{part.hash_sum:032x}"] for part in self.parts]).encode())


def batch_prefix(batch_number: int) -> str:
    """The folder of a batch.

    >>> batch_prefix(7)
    'batch=7'
    """
    return f"batch={batch_number}"


def part_name(number: int, place: int, taken: int = 0, *, suffix: str = "parquet") -> str:
    """The name of a file of a task's part by its place, after other files took some names there.

    >>> part_name(7, 0), part_name(7, 1, 2)
    ('part-00007.parquet', 'part-00007-1.2.parquet')
    """
    return f"part-{number:05d}{f'-{place}' if place else ''}{f'.{taken}' if taken else ''}.{suffix}"


def number_of_folder(name: str) -> int | None:
    """The number of the batch with this folder; None if it is no such folder.

    >>> number_of_folder("batch=7"), number_of_folder("_backfills")
    (7, None)
    """
    prefix, _, number = name.partition("=")
    return natural(number) if prefix == "batch" else None


def file_damage(files: Mapping[str, int], sizes: Mapping[str, int]) -> str | None:
    """Fault of the files of one part as a sentence, if any."""
    # File by file: one that was cut and one that grew may have the right bytes together.
    for name, size_bytes in files.items():
        if sizes.get(name) != size_bytes:
            found = f"has {sizes[name]} bytes, {size_bytes} were written" if name in sizes else "is missing"
            return f"{name} {found}"
    return None
