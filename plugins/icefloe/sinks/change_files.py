"""Files of a batch, and the manifest that makes it whole."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import dump_document, load_document
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart, named_columns
from icefloe.sinks.manifest import (
    CLAIM,
    MANIFEST,
    BatchSummary,
    CommitMessage,
    DamagedPartsError,
    Manifest,
    Part,
    WholeBatch,
    Written,
    batch_prefix,
    claim_path,
    is_left_out,
    load_claim,
    number_of_folder,
    part_damage,
    part_name,
    part_slots,
    parts_of,
)
from icefloe.sinks.parquet_files import (
    GROUP_BYTES,
    holds_same_rows,
    parquet_schema,
    read_parquet,
    row_groups,
    write_parquet_files,
)
from icefloe.sinks.sink import PartDelivery, SchemaOf, Sink
from icefloe.storage.local_folders import local_folders, task_folder
from icefloe.storage.location import probe, store_time
from icefloe.storage.store import KeyMissingError, Store, StoredObject, join_url

__all__ = ["ChangeFiles"]

_MOST_FILE_BYTES: Final = 4 * 2**30
"""Size at which a file ends. Stores create at most 5 GB in one request, and a file is created in one request."""


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

        A batch that is whole already stays as it is, but for files that were lost: the result names no files.
        """
        groups = row_groups(schema, changes, max_bytes=min(GROUP_BYTES, self._target_file_bytes))
        with _staging_folder(number) as folder:
            files = write_parquet_files(folder, schema, groups, target_file_bytes=self._target_file_bytes)
            slots = part_slots(number, len(files))
            # Asked only now: making the changes may have taken hours, and another run may have made the batch whole
            # meanwhile.
            whole = self._whole(batch_number)
            if whole is not None:
                whole.restore(slots, files)
                size_bytes = sum(file.stat().st_size for file in files)
                return Written(size_bytes=size_bytes, details={"names": [], "sizes": []})
            delivered = [self._deliver_file(batch_number, slot, file) for slot, file in zip(slots, files, strict=True)]
        names, sizes = [name for name, _ in delivered], [size_bytes for _, size_bytes in delivered]
        return Written(size_bytes=sum(sizes), details={"names": names, "sizes": sizes})

    def commit(self, summary: BatchSummary, messages: Sequence[CommitMessage]) -> None:
        """Write the manifest unless it exists, after checking the size of every file that it names.

        An existing manifest stays if it names the same changes, even in other parts.

        Raises:
            DamagedPartsError: files are missing or have another size.
            TransientError: the existing manifest is of a batch that ended without changes.
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

    def as_sink(self) -> Sink:
        """The sink of batches that are staged in another folder."""
        return FilesDelivery(self)

    @property
    def owner(self) -> str | None:
        """The owner of the path; None: nobody."""
        claim = load_claim(self._store)
        return None if claim is None else claim.owner

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
            self._store.delete(key for key in keys if Manifest.is_key(key) is is_manifest)
        return len(keys)

    def _unnamed(self, batch_number: int, manifest: Manifest) -> list[str]:
        prefix = batch_prefix(batch_number)
        named = {f"{prefix}/{name}" for name in manifest.names}
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


def _staging_folder(number: int) -> AbstractContextManager[Path]:
    disks = local_folders()
    return task_folder("part", disks[number % len(disks)])


def _manifest_key(batch_number: int) -> str:
    return f"{batch_prefix(batch_number)}/{MANIFEST}"


class FilesDelivery(Sink):
    """Parts under ``<path>/batch=<N>/``, and the manifest of a whole batch."""

    keyed: ClassVar[bool] = False
    keeps_written_columns: ClassVar[bool] = True
    finds_keys: ClassVar[bool] = False

    def __init__(self, files: ChangeFiles) -> None:
        self._files = files

    @property
    def url(self) -> str:
        """URL of the path."""
        return self._files.url

    def check(self) -> None:
        """Write, read and delete one object under the path."""
        self._files.check()

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:  # noqa: ARG002
        """Create ``_icefloe.json``, unless it exists. There is no take-over: numbers of two origins would collide."""
        self._files.claim(origin, only_looks=only_looks)

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        """Refuse another batch of that number; see `ChangeFiles`."""
        self._files.refuse_other_batch(
            pipeline=batch.origin.pipeline,
            table=batch.origin.table,
            batch_number=batch.batch_number,
            after_snapshot_id=batch.after_snapshot_id,
            up_to_snapshot_id=batch.up_to_snapshot_id,
        )
        return {}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:  # noqa: ARG002
        """Write the rows of a part; see `ChangeFiles.write`."""
        counts, sums = {kind.name.lower(): 0 for kind in ChangeType}, [0]
        schema = pa.schema([*(batch.schema.field(name) for name in ChangeColumns.ALL), *batch.shown_schema])

        def counted() -> Iterator[pa.RecordBatch]:
            for rows in part.read():
                types = rows.column(ChangeColumns.TYPE)
                for found in types.value_counts().to_pylist():
                    counts[found["values"].lower()] += found["counts"]
                removed = pc.is_in(types, value_set=pa.array(["DELETE", "UPDATE_BEFORE"]))
                signs = np.where(removed.to_numpy(zero_copy_only=False), -1, 1).astype(np.int64)
                shown = batch.shown_rows(rows)
                sums.append(RowHashes.of_batch(shown, key=batch.hash_key).signed_sum(signs))
                yield pa.RecordBatch.from_arrays(
                    [*rows.select(ChangeColumns.ALL).columns, *shown.columns], schema=schema
                )

        written = self._files.write(
            batch_number=batch.batch_number, number=part.number, schema=schema, changes=counted()
        )  # fmt: skip
        message = CommitMessage(
            number=part.number, rows=sum(counts.values()), counts=counts, hash_sum=sum(sums) % (1 << 128),
            size_bytes=written.size_bytes, details=written.details,
        )  # fmt: skip
        # A 128-bit number is no number in JSON.
        details = {**asdict(message), "hash_sum": f"{message.hash_sum:032x}"}
        return PartDelivery(
            number=part.number, rows=part.rows, documents=message.rows, bytes=written.size_bytes, details=details
        )

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:  # noqa: ARG002
        """Write the manifest; see `ChangeFiles.commit`."""
        messages = [
            CommitMessage(**{**each.details, "hash_sum": int(each.details["hash_sum"], 16)}) for each in deliveries
        ]
        names = [kind.name.lower() for kind in ChangeType]
        summary = BatchSummary(
            pipeline=batch.origin.pipeline, table=batch.origin.table, batch_number=batch.batch_number,
            after_snapshot_id=batch.after_snapshot_id, up_to_snapshot_id=batch.up_to_snapshot_id, steps=batch.steps,
            rows=sum(message.rows for message in messages),
            counts={name: sum(message.counts[name] for message in messages) for name in names},
            hash_sum=sum(message.hash_sum for message in messages) % (1 << 128), hash_key=batch.hash_key,
        )  # fmt: skip
        self._files.commit(summary, messages)

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes of batches that have a manifest, batch by batch."""
        for rows in self.read_back_as_written(lambda _number: schema):
            found = rows.select(schema.names)
            yield found if keys is None else _of_keys(found, keys)

    def read_back_as_written(
        self,
        schema_of: SchemaOf,  # noqa: ARG002 - files have schemas of their own
        *,
        first_batch: int = 0,
        keys: pa.RecordBatch | None = None,  # noqa: ARG002 - their columns may have had other names
    ) -> Iterator[pa.RecordBatch]:
        """The same changes, in the columns of their files."""
        for number in self._files.whole_batches():
            for part in self._files.manifest(number).parts if number >= first_batch else ():
                yield from self._files.read_part(number, part)

    def close(self) -> None:
        """Nothing is open."""


def _of_keys(rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(RowHashes.among(named_columns(rows, keys.schema.names), keys.columns))
