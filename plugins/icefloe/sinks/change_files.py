"""Files of a batch, and the manifest that makes it whole."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.documents import dump_document, load_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.manifest import (
    CLAIM,
    MANIFEST,
    BatchSummary,
    CommitMessage,
    DamagedPartsError,
    Manifest,
    Part,
    Written,
    batch_prefix,
    claim_path,
    is_left_out,
    number_of_folder,
    part_damage,
    part_name,
    part_slots,
    parts_of,
    slot_of,
)
from icefloe.sinks.parquet_files import (
    GROUP_BYTES,
    holds_same_rows,
    parquet_schema,
    read_parquet,
    row_groups,
    write_parquet_files,
)
from icefloe.storage.keys import join_url
from icefloe.storage.local_folders import local_folders, task_folder
from icefloe.storage.location import probe, store_time
from icefloe.storage.store import KeyMissingError, Store, StoredObject

__all__ = ["ChangeFiles", "GivenUpBatchError"]

_MOST_FILE_BYTES: Final = 4 * 2**30
"""Size at which a file ends. Stores create at most 5 GB in one request, and a file is created in one request."""


class GivenUpBatchError(TransientError):
    """The batch ended without changes, and the checkpoint may not say so yet: retry."""


class ChangeFiles:
    """The changes of batches under ``<path>/batch=<N>/``; a part's rows follow from its task alone.

    Many processes `write` at once, repeat it, or still do so as zombies after the commit. They keep existing files with
    the same rows, and never replace others. Files that no manifest names do not count.

    Args:
        target_file_bytes: begin another file of the same part above this size; None: above 4 GiB, the largest size.
    """

    def __init__(self, store: Store, *, target_file_bytes: int | None = None) -> None:
        self._store = store
        self._target_file_bytes = min(target_file_bytes or _MOST_FILE_BYTES, _MOST_FILE_BYTES)

    def check(self) -> None:
        """Write, read and delete one object under the path."""
        way_out = "as sink.path: coordination is for storage and checkpoint only"
        probe(self._store, way_out=way_out, is_new=self._store.size(CLAIM) is None)

    def claim(self, origin: Origin, *, only_looks: bool = False) -> None:
        """Create ``_icefloe.json`` at the path, unless it exists, or only read it; errors as of `Sink.claim`."""
        claim_path(self._store, origin, only_looks=only_looks)

    def refuse_other_batch(
        self,
        *,
        pipeline: str,
        table: str,
        batch_number: int,
        after_snapshot_id: int | None,
        up_to_snapshot_id: int | None,
    ) -> int | None:
        """Compare with the manifest of that number, if any; returns its key."""
        whole = self._whole(batch_number)
        if whole is None:
            return None
        there = whole.manifest.batch
        if (there.pipeline, there.table, there.after_snapshot_id, there.up_to_snapshot_id) != (
            pipeline, table, after_snapshot_id, up_to_snapshot_id,
        ):  # fmt: skip
            raise whole.in_use()
        return there.hash_key

    def write(self, *, batch_number: int, number: int, schema: pa.Schema, changes: Iterable[pa.RecordBatch]) -> Written:
        """Write the part to local disk until ``changes`` ends, then put each file in one atomic step.

        A batch that is whole already stays as it is, without parts that are cut differently.
        """
        groups = row_groups(schema, changes, max_bytes=min(GROUP_BYTES, self._target_file_bytes))
        with _staging_folder(number) as folder:
            files = write_parquet_files(folder, schema, groups, target_file_bytes=self._target_file_bytes)
            slots = part_slots(number, len(files))
            # Asked only now: making the changes may have taken hours, and another run may have made the batch whole
            # meanwhile.
            whole = self._whole(batch_number)
            if whole is not None:
                return whole.kept_part(slots, files)
            delivered = [self._deliver_file(batch_number, slot, file) for slot, file in zip(slots, files, strict=True)]
        names, sizes = [name for name, _ in delivered], [size_bytes for _, size_bytes in delivered]
        return Written(size_bytes=sum(sizes), details={"names": names, "sizes": sizes})

    def commit(self, summary: BatchSummary, messages: Sequence[CommitMessage]) -> None:
        """Write the manifest unless it exists, after checking the size of every file that it names.

        An existing manifest stays if it names the same changes, even in other parts.

        Raises:
            DamagedPartsError: files are missing or have another size.
            GivenUpBatchError: the existing manifest is of a batch that ended without changes.
        """
        # A part that was left out has no files. A manifest made of these messages would lack its rows.
        if any(map(is_left_out, messages)) and (whole := self._whole(summary.batch_number)) is not None:
            whole.require(summary, messages)
            return
        self._refuse_damaged(summary.batch_number, messages)
        manifest = Manifest(batch=summary, parts=parts_of(messages))
        if self._store.create(_manifest_key(summary.batch_number), dump_document(manifest)):
            return
        if (existing := self.manifest(summary.batch_number)) != manifest:
            WholeBatch(store=self._store, manifest=existing).require(summary, messages)

    def manifest(self, batch_number: int) -> Manifest:
        """The manifest of a committed batch; KeyMissingError if it is not whole."""
        key = _manifest_key(batch_number)
        return load_document(Manifest, self._store.get(key), what=f"the manifest {join_url(self._store.url, key)}")

    def read_part(self, batch_number: int, part: Part) -> Iterator[pa.RecordBatch]:
        """The changes of one part, in the order of delivery; holds at most one row group.

        Raises:
            KeyMissingError: a file that the manifest names is gone.
        """
        for name in part.names:
            yield from read_parquet(self._store, f"{batch_prefix(batch_number)}/{name}")

    def whole_batches(self) -> list[int]:
        """The numbers of batches with a manifest, ascending."""
        folders = (stored.key.partition("/") for stored in self._store.list(""))
        numbers = (number_of_folder(folder) for folder, _, name in folders if name == MANIFEST)
        return sorted(number for number in numbers if number is not None)

    def part_schema(self, batch_number: int, part: Part) -> pa.Schema:
        """The schema of one part, with the errors of `read_part`."""
        return parquet_schema(self._store, f"{batch_prefix(batch_number)}/{part.names[0]}")

    @property
    def url(self) -> str:
        """URL of the path."""
        return self._store.url

    def _refuse_damaged(self, batch_number: int, messages: Sequence[CommitMessage]) -> None:
        folder = batch_prefix(batch_number)
        sizes = {each.key.removeprefix(f"{folder}/"): each.size_bytes for each in self._store.list(folder)}
        checked = {each.number: part_damage(each, sizes) for each in messages if each.rows}
        damaged = {number: damage for number, damage in sorted(checked.items()) if damage is not None}
        if damaged:
            raise DamagedPartsError(
                f"{len(damaged)} of {len(checked)} parts in {join_url(self._store.url, folder)} differ from the output "
                f"of their tasks: {next(iter(damaged.values()))}; files there were probably deleted or cut",
                numbers=tuple(damaged),
            )

    def whole(self, batch_number: int) -> BatchSummary | None:
        """The summary of a batch that has a manifest."""
        found = self._whole(batch_number)
        return None if found is None else found.manifest.batch

    def discard(self, batch_number: int) -> int:
        """Delete files that the manifest does not name."""
        found = self._whole(batch_number)
        keys = [] if found is None else self._unnamed(batch_number, found.manifest)
        self._store.delete(keys)
        return len(keys)

    def size_of(self, batch_number: int) -> int:
        """Bytes of all files in the batch's folder."""
        return sum(each.size_bytes for each in self._store.list(batch_prefix(batch_number)))

    def delete_before(self, batch_number: int, *, age: timedelta) -> int:
        """Delete whole batches before one, and return the number of objects."""
        found: dict[int, list[StoredObject]] = {}
        for stored in self._store.list(""):
            number = number_of_folder(stored.key.partition("/")[0])
            if number is not None and number < batch_number:
                found.setdefault(number, []).append(stored)
        cutoff = store_time(self._store) - age if found and age else None
        old = [files for files in found.values() if cutoff is None or max(each.modified for each in files) < cutoff]
        # The manifests go first: readers trust them, and must not find parts missing that a manifest names. What a
        # cleanup leaves that is killed in between has no manifest, and the next cleanup takes it.
        keys = [each.key for files in old for each in files]
        for is_manifest in (True, False):
            self._store.delete(key for key in keys if key.endswith(f"/{MANIFEST}") is is_manifest)
        return len(keys)

    def unnamed_files(self, batch_number: int, manifest: Manifest) -> int:
        """Number of files outside the manifest, left by killed tasks."""
        return len(self._unnamed(batch_number, manifest))

    def _unnamed(self, batch_number: int, manifest: Manifest) -> list[str]:
        prefix = batch_prefix(batch_number)
        named = {_manifest_key(batch_number), *(f"{prefix}/{name}" for part in manifest.parts for name in part.names)}
        return [each.key for each in self._store.list(prefix) if each.key not in named]

    def _deliver_file(self, batch_number: int, slot: str, file: Path) -> tuple[str, int]:
        # What is there under a name decides:
        #   nothing          create it, without a look before: only a retry of a killed attempt would find a file
        #   the same rows    keep that file, even in other bytes
        #   anything else    a file of an attempt that cut elsewhere, or a damaged one: take the next name
        taken = 0
        while True:
            name = part_name(slot, taken)
            key = f"{batch_prefix(batch_number)}/{name}"
            if self._store.create(key, file):
                return name, file.stat().st_size
            stored_bytes = self._store.size(key)
            if stored_bytes is not None and holds_same_rows(self._store, key, file):
                return name, stored_bytes
            taken += 1

    def _whole(self, batch_number: int) -> "WholeBatch | None":
        try:
            return WholeBatch(store=self._store, manifest=self.manifest(batch_number))
        except KeyMissingError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBatch:
    """A batch whose manifest exists."""

    store: Store
    manifest: Manifest

    def kept_part(self, slots: Sequence[str], files: Sequence[Path]) -> Written:
        """The files that a task keeps instead of its own; damaged ones are written again.

        A task whose rows are cut differently has no part here: the result names no files.
        """
        nothing = Written(size_bytes=0, details={"names": [], "sizes": []})
        part = self._part_of(slots, files)
        if part is None:
            return nothing
        keys = [f"{self._prefix}/{name}" for name in part.names]
        if sum(self._sizes(keys)) != part.size_bytes:
            self._mend(part, keys, files)
        sizes = self._sizes(keys)
        # As many rows in the same places, but other rows: this run cuts the changes elsewhere.
        if sum(sizes) != part.size_bytes or not all(map(partial(holds_same_rows, self.store), keys, files)):
            return nothing
        return Written(size_bytes=part.size_bytes, details={"names": list(part.names), "sizes": sizes})

    def _part_of(self, slots: Sequence[str], files: Sequence[Path]) -> Part | None:
        for part in self.manifest.parts:
            if [slot_of(name) for name in part.names] == list(slots):
                rows = sum(pq.read_metadata(file).num_rows for file in files)
                return part if part.rows == rows else None
        return None

    def _mend(self, part: Part, keys: Sequence[str], files: Sequence[Path]) -> None:
        """Write damaged files again: nobody else will."""
        if sum(file.stat().st_size for file in files) != part.size_bytes:
            return
        for key, file in zip(keys, files, strict=True):
            if not (self.store.create(key, file) or holds_same_rows(self.store, key, file)):
                self.store.put(key, file)

    def _sizes(self, keys: Sequence[str]) -> list[int]:
        return [self.store.size(key) or 0 for key in keys]

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
            return GivenUpBatchError(
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


def _staging_folder(number: int) -> AbstractContextManager[Path]:
    disks = local_folders(os.environ)
    return task_folder("part", disks[number % len(disks)])


def _manifest_key(batch_number: int) -> str:
    return f"{batch_prefix(batch_number)}/{MANIFEST}"
