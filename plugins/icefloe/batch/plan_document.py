"""The documents of a plan: its header, and its map tasks; the keys of all documents below the folder of a batch."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.documents import (
    LEFT_OUT_IF_EMPTY,
    LEFT_OUT_IF_NONE,
    Document,
    digest_of,
    document_digest,
    dump_document,
    fields_crc32,
)
from icefloe.flow import Route
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.storage.store import Store

PLAN: Final = "plan.json"
COALESCE_PLAN: Final = "ranges.json"


def split_plan_url(url: str) -> str:
    """Folder of the batch whose plan is at ``url``.

    >>> split_plan_url("file:///var/icefloe/shuffle/flights/7/plan.json")
    'file:///var/icefloe/shuffle/flights/7'
    """
    folder, slash, name = url.rpartition("/")
    if not slash or name != PLAN:
        raise ValueError(f"expected the URL of a {PLAN}, found {url!r}")
    return folder


def tasks_key(digests: Iterable[str]) -> str:
    """Key of the documents of all map tasks of a plan, which contains a digest of their digests.

    >>> tasks_key(["e3b0c44298fc1c149afbf4c8996fb924"])
    'tasks/2ae1019cef8eccac.json'
    """
    return f"tasks/{digest_of(''.join(digests).encode())[:16]}.json"


def extents_key(epoch: int) -> str:
    """Key of the extents in an epoch of the map outputs."""
    return f"extents/{epoch}.extents"


def moves_key(range_id: int) -> str:
    """Key of the rows that a hash range found to cancel across identities."""
    return f"moves/{range_id:05d}.moves"


def result_key(range_id: int) -> str:
    """Key of the result of a range."""
    return f"results/{range_id:05d}.json"


def begun_key() -> str:
    """Key of the facts that the first try of a delivery found."""
    return "deliveries/begun.json"


def delivery_key(number: int | None) -> str:
    """Key of the delivery of a part; None: of the whole batch."""
    return "delivery.json" if number is None else f"deliveries/{number:05d}.json"


def phase_key(phase: str) -> str:
    """Key of the record of a phase."""
    return f"phases/{phase}.json"


def error_key(phase: str, attempt: str) -> str:
    """Key of the error of a Spark application."""
    return f"errors/{phase}-{attempt}.json"


_INCIDENTAL: Final[Mapping[str, Any]] = {
    "icefloe_version": "",
    "checkpoint_id": "",
    "offset_digest": "",
    "settings_digest": "",
    "table_location": "",
    "partitions_reason": "",
    "warnings": (),
    "planned_at": "",
    "crc32": None,
}
"""Fields that may differ when the same plan is made again, with the values that the digest uses for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteState(Document):
    """The delete files in force on a data file at one state of the table, as the difference to the state before it."""

    added: tuple[int, ...] = ()  # as `dropped`, places among the map task's delete files
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTerms(Document):
    """The weights that the rows of a data file, or of several, have in each step that touches them."""

    # (change_ordinal, weight, delete state), ascending: rows live in the state have the weight. Equal ordinals add up.
    terms: tuple[tuple[int, int, int], ...]
    # In state 0 no delete file is in force; ``delete_states[i]`` is state i + 1.
    delete_states: Annotated[tuple[DeleteState, ...], LEFT_OUT_IF_EMPTY] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork(Document):
    """One data file, and the place of its terms among those of the map task."""

    data_file: DataFile
    terms: Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTask(Document):
    """One task of phase one: files that probably hold the same rows, bounded by bytes."""

    version: Literal[1] = 1
    map_id: int
    files: tuple[FileWork, ...]
    delete_files: tuple[DeleteFile, ...] = ()
    terms: tuple[FileTerms, ...]  # each once: 100 delete files on 2,000 data files would be 400,000

    def __post_init__(self) -> None:
        if any(work.terms >= len(self.terms) for work in self.files):
            raise ValueError("a data file names terms that the map task lacks")

    @property
    def size_bytes(self) -> int:
        """File bytes to read."""
        deletes = sum(delete_file.size_bytes for delete_file in self.delete_files)
        return sum(work.data_file.read_bytes for work in self.files) + deletes


def put_map_tasks(store: Store, tasks: Sequence[MapTask], *, key: str) -> None:
    """Stores all map tasks of a plan in one file, in the order of their ids."""
    if tasks:
        store.put(key, b"".join(map(dump_document, tasks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Document):
    """The header of a plan: everything that tasks share. It holds no secret and never changes."""

    version: Literal[1] = 1
    icefloe_version: str
    checkpoint_id: str = ""  # to `backfill_id` as here in `read_changes`, which has no checkpoint
    offset_digest: str = ""
    settings_digest: str = ""  # of the settings that decide what arrives; see `RunSettings`
    pipeline: str = ""
    batch_number: int = 0
    backfill_id: str | None = None
    route: Route
    table: str
    table_location: str
    spec: BatchSpec  # as the offset record has it
    summary_row_deltas: tuple[int | None, ...]  # inserts less deletes by ordinal; None: the summary does not say
    table_schema: Mapping[str, object]  # Iceberg's JSON, at the batch's last snapshot
    name_mapping: Any
    equality_schemas: Mapping[str, Mapping[str, object]]  # of delete keys: Iceberg's JSON by comma-joined field ids
    map_task_bytes: tuple[int, ...]  # of files, by map_id, so that engines know the largest tasks
    map_task_digests: tuple[str, ...]  # by map_id; they name the documents' file, so that no other plan can replace it
    map_task_ends: tuple[int, ...]  # of the documents in their file, by map_id; the first begins at 0
    input_rows: int
    num_partitions: int
    hash_partitions: int = 0  # 0 if the delivered columns show the identity
    partitions_reason: str
    changed_partitions: tuple[str, ...] | None = ()  # paths of the table's partitions that it reads; None: any
    warnings: tuple[str, ...] = ()
    planned_at: str = ""
    crc32: Annotated[int | None, LEFT_OUT_IF_NONE] = None  # without this key; None before it is written

    def sealed(self) -> "Plan":
        """This plan with its checksum."""
        return replace(self, crc32=fields_crc32(json.loads(dump_document(self))))

    @property
    def is_net(self) -> bool:
        """True if changes are net. An ordinal then names the last step of an identity."""
        return self.spec.changes == "net"

    @property
    def num_map_tasks(self) -> int:
        """Map ids are 0 to this number, exclusive."""
        return len(self.map_task_bytes)

    @property
    def giving_up(self) -> str:
        """The command that gives the batch up."""
        which = "" if self.backfill_id is None else f" --backfill {self.backfill_id}"
        return f"icefloe abandon {self.pipeline}{which}"

    def map_task_place(self, map_id: int) -> tuple[str, tuple[int, int]]:
        """Key of the file with all map tasks, and the bytes of one there."""
        start = self.map_task_ends[map_id - 1] if map_id else 0
        return tasks_key(self.map_task_digests), (start, self.map_task_ends[map_id])

    @property
    def digest(self) -> str:
        """Digest of everything that decides rows, parts and their order; the same for a plan that is made again."""
        return document_digest(replace(self, **_INCIDENTAL))
