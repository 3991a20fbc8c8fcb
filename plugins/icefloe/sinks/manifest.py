"""The claim of a folder, and the manifest of each batch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict

from icefloe.changes.columns import ChangeType
from icefloe.documents import STRICT, Hash128, SnapshotId, digest_of, dump_document, load_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.storage.store import Store, join_url
from icefloe.units import natural

__all__ = [
    "BatchSummary",
    "CommitMessage",
    "DamagedPartsError",
    "Manifest",
    "Part",
]

CLAIM: Final = "_icefloe.json"
"""Spark and Arrow do not take files for data whose names begin with an underscore."""
_KEYS: Final = "sink.path of its own, or a changelog.path if batches are staged there"
MANIFEST: Final = "_manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkClaim(Origin):
    """``_icefloe.json``: the writer below a folder; pipeline and table are for people."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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
class Written:
    """The result of one task's write."""

    size_bytes: int
    details: Mapping[str, Any]  # facts that the sink needs at commit, such as file names; JSON values only


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """One task's delivered changes.

    Attributes:
        number: a map id or a range id; once in a batch.
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
    """Summary of a whole batch; ``hash_key`` is the key of its hash sums."""

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

    @classmethod
    def empty(cls, pipeline: str, table: str, *, batch_number: int, snapshot_id: int | None) -> "BatchSummary":
        """A batch without changes as its sink gets it. No snapshot id: the pipeline begins."""
        return cls(
            pipeline=pipeline,
            table=table,
            batch_number=batch_number,
            after_snapshot_id=snapshot_id,
            up_to_snapshot_id=snapshot_id,
            steps=0,
            rows=0,
            counts={each.name.lower(): 0 for each in ChangeType},
            hash_sum=0,
            hash_key=0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The changes of one task, in one file or several.

    Attributes:
        hash_sum: as in `CommitMessage`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    names: tuple[str, ...]
    rows: int
    size_bytes: int
    hash_sum: Hash128


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``_manifest.json``: written last; if it exists, the batch is whole."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    format: Literal["parquet"] = "parquet"
    batch: BatchSummary
    parts: tuple[Part, ...]

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


def parts_of(messages: Sequence[CommitMessage]) -> tuple[Part, ...]:
    """The parts that tasks with changes wrote, by number."""
    return tuple(
        Part(
            names=tuple(message.details["names"]),
            rows=message.rows,
            size_bytes=message.size_bytes,
            hash_sum=message.hash_sum,
        )
        for message in sorted(messages, key=lambda message: message.number)
        if message.rows
    )


def batch_prefix(batch_number: int) -> str:
    """The folder of a batch.

    >>> batch_prefix(7)
    'batch=7'
    """
    return f"batch={batch_number}"


def part_slots(number: int, num_files: int) -> list[str]:
    """The places of the files of a task's part, in the order of its changes.

    >>> part_slots(7, 2)
    ['part-00007', 'part-00007-1']
    """
    return [f"part-{number:05d}{f'-{place}' if place else ''}" for place in range(num_files)]


def part_name(slot: str, taken: int = 0) -> str:
    """The name of a file in its place, after other files took some names there.

    >>> part_name("part-00007-1"), part_name("part-00007-1", 2)
    ('part-00007-1.parquet', 'part-00007-1.2.parquet')
    """
    return f"{slot}{f'.{taken}' if taken else ''}.parquet"


def slot_of(name: str) -> str:
    """The place of a file.

    >>> slot_of("part-00007-1.2.parquet")
    'part-00007-1'
    """
    return name.partition(".")[0]


def number_of_folder(name: str) -> int | None:
    """The number of the batch with this folder; None if it is no such folder.

    >>> number_of_folder("batch=7"), number_of_folder("_backfills")
    (7, None)
    """
    prefix, _, number = name.partition("=")
    return natural(number) if prefix == "batch" else None


def is_left_out(message: CommitMessage) -> bool:
    """True if a task wrote no file, because it found the batch whole in other parts."""
    return message.rows > 0 and not message.details["names"]


def part_damage(message: CommitMessage, sizes: Mapping[str, int]) -> str | None:
    """Fault of the files of one part as a sentence, if any."""
    if is_left_out(message):
        return f"task {message.number} found the batch whole and wrote nothing, and its manifest is gone"
    names: Sequence[str] = message.details["names"]
    missing = [name for name in names if name not in sizes]
    if missing:
        return f"{missing[0]} is missing"
    # File by file: one that was cut and one that grew may have the right bytes together.
    for name, size_bytes in zip(names, message.details["sizes"], strict=True):
        if sizes[name] != size_bytes:
            return f"{name} has {sizes[name]} bytes, {size_bytes} were written"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBatch:
    """A batch whose manifest exists."""

    store: Store
    manifest: Manifest

    def restore(self, slots: Sequence[str], files: Sequence[Path]) -> None:
        """Put damaged files of a part in place, if a task made the very same files again: nobody else will."""
        sizes = [file.stat().st_size for file in files]
        for part in self.manifest.parts:
            if [slot_of(name) for name in part.names] != list(slots) or sum(sizes) != part.size_bytes:
                continue
            for name, file, size_bytes in zip(part.names, files, sizes, strict=True):
                key = f"{self._prefix}/{name}"
                if self.store.size(key) != size_bytes:
                    self.store.put(key, file)

    def require(self, summary: BatchSummary, messages: Sequence[CommitMessage]) -> None:
        """Check that the manifest is of these changes, and its files exist."""
        if self.manifest.batch != summary:
            raise self.in_use()
        sizes = {each.key.removeprefix(f"{self._prefix}/"): each.size_bytes for each in self.store.list(self._prefix)}
        replaced = [part for part in parts_of(messages) if part.names and part not in self.manifest.parts]
        damaged = [part for part in self.manifest.parts if not _is_whole(part, sizes)]
        if replaced or damaged:
            raise TerminalError(
                f"{self.url} holds this whole batch in other parts than this run makes, and "
                f"{(*replaced, *damaged)[0].names[0]} there differs from the manifest: delete everything below "
                f"{self.url} and run again; the same changes are delivered once more"
            )

    def in_use(self) -> IcefloeError:
        """The error that the batch holds other changes, or ended without any."""
        batch = self.manifest.batch
        if batch.steps == 0 and batch.after_snapshot_id == batch.up_to_snapshot_id:
            # The checkpoint may not say so yet.
            return TransientError(
                f"{self.url} holds batch {batch.batch_number} of pipeline {batch.pipeline} without changes: it was "
                "abandoned or moved the cursor, and this run came too late; run again to go on with the next batch"
            )
        return TerminalError(
            f"{self.url} already holds a whole batch with other changes, of pipeline {batch.pipeline} for table "
            f"{batch.table} up to snapshot {batch.up_to_snapshot_id}; give each pipeline, and each new start of one, a "
            "sink.path of its own"
        )

    @property
    def url(self) -> str:
        """URL of the batch's folder."""
        return join_url(self.store.url, self._prefix)

    @property
    def _prefix(self) -> str:
        return batch_prefix(self.manifest.batch.batch_number)


def _is_whole(part: Part, sizes: dict[str, int]) -> bool:
    return all(name in sizes for name in part.names) and sum(sizes[name] for name in part.names) == part.size_bytes
