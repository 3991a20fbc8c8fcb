"""Files of a batch, and the manifest that makes it whole."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import dump_document, load_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart, named_columns
from icefloe.sinks.file_form import FileForm
from icefloe.sinks.hive_folders import Run, hive_folder
from icefloe.sinks.manifest import (
    CLAIM,
    MANIFEST,
    BatchSummary,
    CommitMessage,
    DamagedPartsError,
    Manifest,
    Part,
    batch_prefix,
    claim_path,
    file_damage,
    load_claim,
    number_of_folder,
    part_name,
)
from icefloe.sinks.parquet_files import (
    GROUP_BYTES,
    read_parquet,
    row_groups,
)
from icefloe.sinks.row_order import RowOrder
from icefloe.sinks.sink import PartDelivery, SchemaOf, Sink
from icefloe.storage.local_folders import local_folders, on_local_disk, task_folder
from icefloe.storage.location import probe, store_time
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store, StoredObject, join_url

__all__ = ["ChangeFiles"]

_MOST_FILE_BYTES: Final = 4 * 2**30
"""Size at which a file ends. Stores create at most 5 GB in one request, and a file is created in one request."""


_PLAIN: Final = FileForm()
_REPLAY: Final = RowOrder(columns=(ChangeColumns.ORDINAL,), replays=True)
_REPLAY_BYTES: Final = 1 << 28


class ChangeFiles:
    """The changes of batches under ``<path>/batch=<N>/``; a part's rows follow from its task alone.

    Many processes `write` at once, repeat it, or still do so as zombies after the commit. They keep existing files with
    the same rows, and never replace others. Files that no manifest names do not count.

    Args:
        target_file_bytes: begin another file of the same part above this size; None: above 4 GiB, the largest size.
        form: of the files.
        for_spark: as of `write_parquet_files`.
    """

    def __init__(
        self, store: Store, *, target_file_bytes: int | None = None, form: FileForm = _PLAIN, for_spark: bool = False
    ) -> None:
        self._store, self._form, self._for_spark = store, form, for_spark
        self._target_file_bytes = min(target_file_bytes or _MOST_FILE_BYTES, _MOST_FILE_BYTES)

    def check(self) -> None:
        """Write, read and delete one object under the path."""
        way_out = "as sink.path: coordination is for storage and checkpoint only"
        probe(self._store, way_out=way_out, is_new=self._store.size(CLAIM) is None)

    def claim(self, origin: Origin, *, only_looks: bool = False) -> None:
        """Create ``_icefloe.json`` at the path, unless it exists, or only read it; errors as of `Sink.claim`."""
        claim_path(self._store, origin, only_looks=only_looks)

    def refuse_other_batch(
        self, origin: Origin, batch_number: int, *, after: int | None, up_to: int | None
    ) -> int | None:
        """Compare with the manifest of that number, if any, by pipeline and snapshot ids; returns its key."""
        there = self.whole(batch_number)
        if there is None:
            return None
        found = (there.pipeline, there.table, there.after_snapshot_id, there.up_to_snapshot_id)
        if found != (origin.pipeline, origin.table, after, up_to):
            raise self._in_use(there)
        return there.hash_key

    def write(
        self, *, batch_number: int, number: int, schema: pa.Schema, changes: Iterable[pa.RecordBatch]
    ) -> dict[str, int]:
        """Write the part to local disk until ``changes`` ends, then put each file in one atomic step.

        Returns:
            Bytes of each file by its name.
        """
        files: dict[str, int] = self._write(batch_number, number, schema, [({}, changes)])["files"]
        return files

    def _write(self, batch_number: int, number: int, schema: pa.Schema, runs: Iterable[Run]) -> dict[str, Any]:
        """The same for several partitions; returns the fields of a `CommitMessage`."""
        disks, most = local_folders(), self._target_file_bytes
        with task_folder("part", disks[number % len(disks)]) as folder:
            files = list[tuple[Mapping[str, object], Path]]()
            for values, changes in runs:
                groups = row_groups(schema, changes, max_bytes=min(GROUP_BYTES, most))
                with on_local_disk(f"cannot keep the changes of a task in {folder} until they are whole"):
                    (below := folder / str(len(files))).mkdir()
                files += [
                    (values, file)
                    for file in self._form.write(
                        below, schema, groups, target_file_bytes=most, for_spark=self._for_spark
                    )
                ]
            # Of all partitions, names are different: an empty text and null have one folder.
            named = map_parallel(
                lambda place: self._put(batch_number, number, place, files[place][1], hive_folder(files[place][0])),
                range(len(files)),
            )
        values_of = {name: values for (values, _), (name, _) in zip(files, named, strict=True) if values}
        return {"files": dict(named), "partitions": values_of}

    def commit(
        self,
        summary: BatchSummary,
        messages: Sequence[CommitMessage],
        columns: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Write the manifest unless it exists, after checking the size of every file that it names.

        An existing manifest stays if it names the same changes, even in other parts.

        Args:
            columns: as in `Manifest`.

        Raises:
            DamagedPartsError: files are missing or have another size.
            TransientError: the existing manifest is of a batch that ended without changes.
        """
        number, manifest = summary.batch_number, self.checked(summary, messages, columns)
        url = join_url(self._store.url, batch_prefix(number))
        if self._store.create(_manifest_key(number), dump_document(manifest)) or self.manifest(number) == manifest:
            return
        existing, sizes = self.manifest(number), self._sizes(number)
        if existing.batch != summary:
            raise self._in_use(existing.batch)
        if lost := [part.names[0] for part in existing.parts if not part.is_whole(sizes)]:
            raise TerminalError(
                f"{url} holds this whole batch in other parts than this run makes, and {lost[0]} there differs from "
                f"the manifest: delete everything below {url} and run again; the same changes are delivered once more"
            )
        # Of this run, which cut its parts elsewhere: a program that lists the folder would read changes twice.
        self.discard(number)

    def checked(
        self, summary: BatchSummary, messages: Sequence[CommitMessage], columns: Mapping[str, object]
    ) -> Manifest:
        """The manifest that `commit` would write, with its check and its DamagedPartsError."""
        number, sizes = summary.batch_number, self._sizes(summary.batch_number)
        checked = {each.number: file_damage(each.files, sizes) for each in messages if each.rows}
        damaged = {each: damage for each, damage in sorted(checked.items()) if damage is not None}
        manifest = Manifest.of(summary, messages, columns, self._form)
        # Files of this run may be gone because it found another manifest before it was killed; see `commit`.
        if damaged and self.find(number) in (None, manifest):
            raise DamagedPartsError(
                f"{len(damaged)} of {len(checked)} parts in {join_url(self._store.url, batch_prefix(number))} differ "
                f"from the output of their tasks: {next(iter(damaged.values()))}; files there were probably deleted "
                "or cut",
                numbers=tuple(damaged),
            )
        return manifest

    def manifest(self, batch_number: int) -> Manifest:
        """The manifest of a committed batch; KeyMissingError if it is not whole."""
        key = _manifest_key(batch_number)
        return load_document(Manifest, self._store.get(key), what=f"the manifest {join_url(self._store.url, key)}")

    def read_part(
        self, batch_number: int, part: Part, *, sampled: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The changes of one part, in the order of delivery; holds at most one row group.

        Raises:
            KeyMissingError: a file that the manifest names is gone.
        """
        for name in part.names:
            yield from read_parquet(self._store, f"{batch_prefix(batch_number)}/{name}", sampled=sampled)

    def part_urls(self, batch_number: int, part: Part) -> tuple[str, ...]:
        """The files of one part."""
        return tuple(join_url(self._store.url, f"{batch_prefix(batch_number)}/{name}") for name in part.names)

    def whole_batches(self) -> list[int]:
        """The numbers of batches with a manifest, ascending."""
        folders = (stored.key.partition("/") for stored in self._store.list(""))
        numbers = (number_of_folder(folder) for folder, _, name in folders if name == MANIFEST)
        return sorted(number for number in numbers if number is not None)

    def as_sink(self, **form: Any) -> Sink:
        """The sink of batches that are staged in another folder; ``form`` has fields of `FileForm`."""
        return FilesDelivery(self._store, target_file_bytes=self._target_file_bytes, form=FileForm(**form))

    @property
    def owner(self) -> str | None:
        """The owner of the path; None: nobody."""
        claim = load_claim(self._store)
        return None if claim is None else claim.owner

    @property
    def url(self) -> str:
        """URL of the path."""
        return self._store.url

    def find(self, batch_number: int) -> Manifest | None:
        """The manifest of a batch; None if it is not whole."""
        try:
            return self.manifest(batch_number)
        except KeyMissingError:
            return None

    def whole(self, batch_number: int) -> BatchSummary | None:
        """The summary of a batch that has a manifest."""
        found = self.find(batch_number)
        return None if found is None else found.batch

    def discard(self, batch_number: int) -> int:
        """Delete files that the manifest does not name."""
        if (found := self.find(batch_number)) is None:
            return 0
        names = sorted(self._sizes(batch_number).keys() - found.names)
        self._store.delete(f"{batch_prefix(batch_number)}/{name}" for name in names)
        return len(names)

    def size_of(self, batch_number: int) -> int:
        """Bytes of all files in the batch's folder."""
        return sum(self._sizes(batch_number).values())

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

    def _sizes(self, batch_number: int) -> dict[str, int]:
        """Bytes of each file in a batch's folder, by name."""
        folder = batch_prefix(batch_number)
        return {each.key.removeprefix(f"{folder}/"): each.size_bytes for each in self._store.list(folder)}

    def _put(self, batch_number: int, number: int, place: int, file: Path, below: str) -> tuple[str, int]:
        # What is there under a name decides:
        #   nothing          create it, without a look before: only a retry of a killed attempt would find a file
        #   the same rows    keep that file, even in other bytes
        #   anything else    a file of an attempt that cut elsewhere, or a damaged one: take the next name
        taken = 0
        while True:
            name = f"{below}{part_name(number, place, taken, suffix=self._form.format)}"
            key = f"{batch_prefix(batch_number)}/{name}"
            if self._store.create(key, file):
                return name, file.stat().st_size
            stored_bytes = self._store.size(key)
            if stored_bytes is not None and self._form.holds_same_rows(self._store, key, file):
                return name, stored_bytes
            taken += 1

    def _in_use(self, batch: BatchSummary) -> IcefloeError:
        """The error that a number holds other changes, or ended without any."""
        url = join_url(self._store.url, batch_prefix(batch.batch_number))
        if batch.steps == 0 and batch.after_snapshot_id == batch.up_to_snapshot_id:
            # The checkpoint may not say so yet.
            return TransientError(
                f"{url} holds batch {batch.batch_number} of pipeline {batch.pipeline} without changes: it was "
                "abandoned or moved the cursor, and this run came too late; run again to go on with the next batch"
            )
        return TerminalError(
            f"{url} already holds a whole batch with other changes, of pipeline {batch.pipeline} for table "
            f"{batch.table} up to snapshot {batch.up_to_snapshot_id}; give each pipeline, and each new start of one, a "
            "sink.path of its own"
        )


def _manifest_key(batch_number: int) -> str:
    return f"{batch_prefix(batch_number)}/{MANIFEST}"


class FilesDelivery(ChangeFiles, Sink):
    """Parts under ``<path>/batch=<N>/``, and the manifest of a whole batch."""

    keyed: ClassVar[bool] = False
    keeps_written_columns: ClassVar[bool] = True
    finds_keys: ClassVar[bool] = False

    def __init__(self, store: Store, *, target_file_bytes: int | None = None, form: FileForm = _PLAIN) -> None:
        super().__init__(store, target_file_bytes=target_file_bytes, form=form)
        self.order_by = (*form.partition_by, *form.order_by)
        self.keeps_updates = form.columns_as == "debezium"

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:  # noqa: ARG002
        """Create ``_icefloe.json``, unless it exists. There is no take-over: numbers of two origins would collide."""
        super().claim(origin, only_looks=only_looks)

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        """Refuse another origin, and another batch of that number; see `ChangeFiles`."""
        self.claim(batch.origin, only_looks=True)
        if self.order_by:
            self.order(batch)
        after, up_to = batch.after_snapshot_id, batch.up_to_snapshot_id
        self.refuse_other_batch(batch.origin, batch.batch_number, after=after, up_to=up_to)
        return {}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:  # noqa: ARG002
        """Write the rows of a part; see `ChangeFiles.write`."""
        counts, hash_sum = np.zeros(len(ChangeType), np.int64), 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal counts, hash_sum
            for rows in part.read():
                shown, weights = batch.shown_rows(rows), ChangeColumns.weights(rows)
                counts += np.bincount(ChangeColumns.types(rows), minlength=len(ChangeType))
                hash_sum += RowHashes.of_batch(shown, key=batch.hash_key).signed_sum(weights)
                yield batch.given_rows(rows)

        schema = self._form.written(self._form.schema(batch.given_schema))
        runs = self._form.runs(self._form.rows(batch, counted()))
        files = self._write(batch.batch_number, part.number, schema, runs)
        message = CommitMessage.of(part.number, counts, hash_sum=hash_sum, **files)
        return PartDelivery(
            number=part.number, rows=part.rows, documents=message.rows, bytes=message.size_bytes,
            details=message.for_record(),
        )  # fmt: skip

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:  # noqa: ARG002
        """Write the manifest; see `ChangeFiles.commit`."""
        messages = [
            CommitMessage.of_record(each.details, what=f"the record of part {each.number}") for each in deliveries
        ]
        summary = BatchSummary.of(
            messages, pipeline=batch.origin.pipeline, table=batch.origin.table, batch_number=batch.batch_number,
            after_snapshot_id=batch.after_snapshot_id, up_to_snapshot_id=batch.up_to_snapshot_id, steps=batch.steps,
            hash_key=batch.hash_key, changed_partitions=batch.changed_partitions,
        )  # fmt: skip
        # Of `append_only` nobody has counted the rows of whole steps that are left out.
        has_counts = batch.changes == "append_only" or summary.counts == {**summary.counts, **batch.counts}
        is_hidden = batch.hash_sum is None or batch.given_schema != batch.schema
        if not has_counts or not (is_hidden or summary.hash_sum == batch.hash_sum):
            raise TerminalError(
                f"batch {batch.batch_number} has the changes {batch.counts}, but {summary.counts}, or other values, "
                f"were written to {self.url}: it is not delivered, report this with the batch's folder"
            )
        self.commit(summary, messages, batch.columns)

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes of batches that have a manifest, batch by batch."""
        for rows in self.read_back_as_written(lambda _number: schema):
            found = rows.select(schema.names)
            if keys is not None:
                found = found.filter(RowHashes.among(named_columns(found, keys.schema.names), keys.columns))
            yield found

    def read_back_as_written(
        self,
        schema_of: SchemaOf,
        *,
        first_batch: int = 0,
        keys: pa.RecordBatch | None = None,  # noqa: ARG002 - their columns may have had other names
    ) -> Iterator[pa.RecordBatch]:
        """The same changes, in the columns of their files."""
        for number in self.whole_batches():
            if number >= first_batch:
                manifest = self.manifest(number)
                read = partial(self._rows, manifest, schema_of)
                yield from _replayed(read) if manifest.order_by or manifest.partition_by else read()

    def _rows(self, manifest: Manifest, schema_of: SchemaOf) -> Iterator[pa.RecordBatch]:
        number = manifest.batch.batch_number
        for part in manifest.parts:
            rows = hash_sum = 0
            for name in part.names:
                key, values = f"{batch_prefix(number)}/{name}", part.partitions.get(name, {})
                for changes in manifest.read(self._store, key, schema_of(number), values):
                    columns = [column for column in changes.schema.names if column not in ChangeColumns.ALL]
                    hashes = RowHashes.of_batch(changes, columns, key=manifest.batch.hash_key)
                    rows += changes.num_rows
                    hash_sum += hashes.signed_sum(ChangeColumns.weights(changes))
                    yield changes
            if (rows, hash_sum % (1 << 128)) != (part.rows, part.hash_sum):
                raise TerminalError(
                    f"{self.part_urls(number, part)[0]} differs from its manifest: its part has {rows} rows instead of "
                    f"{part.rows}, or other values; restore it"
                )

    def close(self) -> None:
        """Nothing is open."""


def _replayed(read: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Sorted rows in the order of their steps."""
    for first in read():
        return _REPLAY.sorted(lambda: _REPLAY.keyed(read()), first.schema, memory_bytes=_REPLAY_BYTES)
    return iter(())
