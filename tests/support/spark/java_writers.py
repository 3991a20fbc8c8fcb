"""Files that only Iceberg's Java writers make, written from Python rows without a Spark job.

One table, several commits of the shape that Flink writes::

    java = JavaWriters(table)
    [file] = java.data_files([(1, "a"), (2, "b")], file_format="orc")
    java.append([file])
    [newer] = java.data_files([(1, "c")])
    java.row_delta(rows=[newer], deletes=java.equality_deletes(["id"], [(1,), (None,)]))
    vectors = java.deletion_vectors({file: [1]})
    java.row_delta(deletes=vectors.added, removed_deletes=vectors.rewritten)
    with java.transaction() as transaction:
        transaction.append(...)
        transaction.rewrite(removed=[...], added=[...])
    java.manage("rollbackTo", snapshot_id)
    assert java.rows_at(snapshot_id) == table.rows_at(snapshot_id)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from support.spark.java_rows import JavaStates, arrow_rows

__all__ = ["JavaCommits", "JavaTransaction", "JavaWriters", "WrittenVectors"]


class JavaCommits(ABC):
    """One method per kind of commit; each returns the id of the snapshot it made.

    Files are what `JavaWriters` returns: Java's DataFile and DeleteFile. Every method takes ``branch`` (default: main)
    and ``wap_id`` (stage the snapshot without a reference, under that id).
    """

    @abstractmethod
    def updates(self) -> Any:
        """The Java object with ``newAppend`` and the like: a table or a transaction."""

    @abstractmethod
    def state(self) -> Any:
        """Java's table as the next commit finds it."""

    def append(self, files: Iterable[Any], **options: Any) -> int:
        """Append data files: operation append."""
        update = self.updates().newAppend()
        for file in files:
            update.appendFile(file)
        return _commit(update, **options)

    def row_delta(
        self,
        *,
        rows: Iterable[Any] = (),
        deletes: Iterable[Any] = (),
        removed_deletes: Iterable[Any] = (),
        **options: Any,
    ) -> int:
        """Add data and delete files in one commit, and remove delete files that the added ones replace."""
        update = self.updates().newRowDelta()
        for method, files in (
            (update.addRows, rows),
            (update.addDeletes, deletes),
            (update.removeDeletes, removed_deletes),
        ):
            for file in files:
                method(file)
        return _commit(self._on_head(update, options), **options)

    def overwrite(self, *, removed: Iterable[Any] = (), added: Iterable[Any] = (), **options: Any) -> int:
        """Replace data files: operation overwrite."""
        update = self.updates().newOverwrite()
        for file in removed:
            update.deleteFile(file)
        for file in added:
            update.addFile(file)
        return _commit(update, **options)

    def delete(self, files: Iterable[Any], **options: Any) -> int:
        """Remove data files: operation delete."""
        update = self.updates().newDelete()
        for file in files:
            update.deleteFile(file)
        return _commit(update, **options)

    def rewrite(
        self,
        *,
        removed: Iterable[Any] = (),
        added: Iterable[Any] = (),
        sequence_number: int | None = None,
        **options: Any,
    ) -> int:
        """Replace data and delete files by others of the same rows: operation replace.

        Args:
            removed: data files and delete files.
            added: data files and delete files.
            sequence_number: of the added files, so that later equality deletes still reach added data, and added
                equality deletes only what the removed ones reached; default: the commit's.
            options: see the class.
        """
        update = self.updates().newRewrite()
        for file in removed:
            update.deleteFile(file)
        for file in added:
            is_delete = file.content().name() != "DATA"
            update.addFile(*((file, sequence_number) if is_delete and sequence_number is not None else (file,)))
        if sequence_number is not None:
            update.dataSequenceNumber(sequence_number)
        return _commit(self._on_head(update, options), **options)

    @contextmanager
    def schema(self) -> Iterator[Any]:
        """Java's ``UpdateSchema``, committed at the end; `JavaWriters.type` makes its types."""
        update = self.updates().updateSchema()
        yield update
        update.commit()

    @contextmanager
    def spec(self) -> Iterator[Any]:
        """Java's ``UpdatePartitionSpec``, committed at the end; `JavaWriters.term` makes its terms."""
        update = self.updates().updateSpec()
        yield update
        update.commit()

    def manage(self, method: str, *arguments: Any) -> None:
        """One call of ``ManageSnapshots``, committed.

        They are rollbackTo, setCurrentSnapshot, cherrypick, createBranch, createTag, replaceBranch, replaceTag,
        removeBranch, removeTag, fastForwardBranch and renameBranch.
        """
        getattr(self.updates().manageSnapshots(), method)(*arguments).commit()

    def expire(self, *snapshot_ids: int, clean_files: bool = True) -> None:
        """Expire snapshots; with ``clean_files`` what only they needed is deleted."""
        update = self.updates().expireSnapshots().cleanExpiredFiles(clean_files)
        for snapshot_id in snapshot_ids:
            update.expireSnapshotId(snapshot_id)
        update.commit()

    def _on_head(self, update: Any, options: Mapping[str, Any]) -> Any:
        """The update, told that its writer has seen the branch's head: else all of history would be in conflict."""
        head = self.state().snapshot(options.get("branch") or "main")
        return update if head is None else update.validateFromSnapshot(head.snapshotId())


@dataclass(frozen=True, slots=True)
class JavaTransaction(JavaCommits):
    """The same commits, published together by one metadata commit."""

    transaction: Any

    def updates(self) -> Any:
        return self.transaction

    def state(self) -> Any:
        return self.transaction.table()


def _commit(update: Any, *, branch: str | None = None, wap_id: str | None = None) -> int:
    if branch:
        update.toBranch(branch)
    if wap_id:
        update.set("wap.id", wap_id)
        update.stageOnly()
    update.commit()
    return int(update.updateEvent().snapshotId())


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenVectors:
    """Deletion vectors of one Puffin file, and the delete files whose positions they took over."""

    added: tuple[Any, ...]
    rewritten: tuple[Any, ...]


class JavaWriters(JavaStates, JavaCommits):
    """Data files, position deletes, deletion vectors and equality deletes for one table, and their commits."""

    def updates(self) -> Any:
        return self.java

    def state(self) -> Any:
        return self.java

    @contextmanager
    def transaction(self) -> Iterator[JavaTransaction]:
        """Several commits published together at the end."""
        transaction = self.java.newTransaction()
        yield JavaTransaction(transaction)
        transaction.commitTransaction()

    def data_files(
        self,
        rows: Iterable[Sequence[Any] | Mapping[str, Any]],
        *,
        file_format: str = "parquet",
        schema_id: int | None = None,
    ) -> list[Any]:
        """Write rows in their order, one file for each partition in the order of its first row.

        Args:
            rows: values in the order of the table's columns, or by column.
            file_format: parquet, orc or avro.
            schema_id: default: the table's current one.
        """
        java, metadata = self.java, self.table.load().metadata
        spec = java.spec()
        schema_id = metadata.current_schema_id if schema_id is None else schema_id
        schema, java_schema = metadata.schema_by_id(schema_id), java.schemas().get(schema_id)
        assert schema is not None, f"table {self.table.name} has no schema {schema_id}"
        records = self._rows.records(arrow_rows(schema, [field.name for field in schema.fields], rows), java_schema)
        return [
            self._write(_DATA, self._builder(file_format).dataSchema(java_schema), file_format, spec, partition, part)
            for partition, part in self._partitions(spec, java_schema, records)
        ]

    def position_deletes(
        self,
        positions: Mapping[Any, Iterable[int]],
        *,
        granularity: str = "file",
        referenced: bool = False,
    ) -> list[Any]:
        """Delete rows by position.

        Args:
            positions: of each data file.
            granularity: ``file``: one delete file for each data file; ``partition``: one for each partition.
            referenced: name the data file in the manifest (``referenced_data_file``); granularity file only.
        """
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for file in sorted(positions, key=lambda file: str(file.location())):
            key = (file.specId(), str(file.partition())) if granularity == "partition" else (file.location(),)
            groups.setdefault(key, []).append(file)
        return [
            self._position_deletes({file: positions[file] for file in files}, referenced) for files in groups.values()
        ]

    def deletion_vectors(
        self, positions: Mapping[Any, Iterable[int]], *, branch: str | None = None, merge: bool = True
    ) -> WrittenVectors:
        """Write one Puffin file with a deletion vector for each data file.

        Args:
            positions: of each data file.
            branch: whose deletes in force the vectors take over; default: main.
            merge: take over the position deletes and vectors in force, as V3 demands.
        """
        java = self.java
        in_force = {task.file().location(): task.deletes() for task in self.scan_tasks(branch)}
        previous = self._rows.jvm.java.util.HashMap()
        for file in positions:
            earlier = [each for each in in_force.get(file.location(), ()) if _content(each) == "POSITION_DELETES"]
            if merge and earlier:
                previous.put(file.location(), self._loaded_positions(earlier, file.location()))
        objects = "java.lang.Object"
        lookup = self._rows.function(previous, "get", declared_by="java.util.Map", result=objects, argument=objects)
        writer = self._iceberg.deletes.BaseDVFileWriter(self._output_files("puffin"), lookup)
        for file, deleted in positions.items():
            for position in deleted:
                writer.delete(file.location(), position, java.specs().get(file.specId()), file.partition())
        writer.close()
        result = writer.result()
        return WrittenVectors(added=tuple(result.deleteFiles()), rewritten=tuple(result.rewrittenDeleteFiles()))

    def equality_deletes(
        self,
        columns: Sequence[str],
        keys: Iterable[Sequence[Any]],
        *,
        partition_of: Any = None,
    ) -> list[Any]:
        """Delete rows by the values of columns: one delete file, in a list as commits take it.

        Args:
            columns: dotted names are fields of structs.
            keys: values in the order of the columns; null deletes null.
            partition_of: a data file whose partition alone is meant; default: every row of the table, which takes an
                unpartitioned spec, current or past.
        """
        java, schema = self.java, self.table.load().schema()
        if partition_of is None:
            spec = next(spec for spec in java.specs().values() if spec.isUnpartitioned())
            partition = self._iceberg.PartitionKey(spec, java.schema())
        else:
            spec, partition = java.specs().get(partition_of.specId()), partition_of.partition()
        java_schema = java.schema().select(self._rows.strings(columns))
        records = self._rows.records(arrow_rows(schema.select(*columns), columns, keys), java_schema)
        ids = self._rows.ints([java.schema().findField(name).fieldId() for name in columns])
        builder = self._builder("parquet").equalityFieldIds(ids).equalityDeleteRowSchema(java_schema)
        return [self._write(_EQUALITY_DELETES, builder, "parquet", spec, partition, records)]

    def _builder(self, file_format: str) -> Any:
        java_format = self._iceberg.FileFormat.fromString(file_format)
        builder = self._iceberg.data.GenericFileWriterFactory.Builder(self._java)
        return builder.dataFileFormat(java_format).deleteFileFormat(java_format)

    def _output(self, file_format: str, spec: Any, partition: Any) -> Any:
        return self._output_files(file_format).newOutputFile(spec, partition)

    def _output_files(self, file_format: str) -> Any:
        builder = self._iceberg.io.OutputFileFactory.builderFor(self._java, 1, next(self._numbers))
        return builder.format(self._iceberg.FileFormat.fromString(file_format)).build()

    def _write(
        self, kind: tuple[str, str], builder: Any, file_format: str, spec: Any, partition: Any, records: Any
    ) -> Any:
        new_writer, to_file = kind
        output = self._output(file_format, spec, partition)
        writer = getattr(builder.build(), new_writer)(output, spec, partition)
        self._rows.write(writer, records)
        return getattr(writer, to_file)()

    def _position_deletes(self, positions: Mapping[Any, Iterable[int]], referenced: bool) -> Any:
        first, *others = positions
        spec, partition = self._java.specs().get(first.specId()), first.partition()
        output = self._output("parquet", spec, partition)
        writer = self._builder("parquet").build().newPositionDeleteWriter(output, spec, partition)
        delete = self._iceberg.deletes.PositionDelete.create()
        for file, deleted in positions.items():
            for position in sorted(deleted):
                writer.write(delete.set(file.location(), position))
        writer.close()
        written = writer.toDeleteFile()
        if not referenced:
            return written
        assert not others, "a delete file names one data file"
        builder = self._iceberg.FileMetadata.deleteFileBuilder(spec).copy(written)
        return builder.withReferencedDataFile(first.location()).build()

    def _partitions(self, spec: Any, java_schema: Any, records: Any) -> list[tuple[Any, Any]]:
        if spec.isUnpartitioned():
            return [(self._iceberg.PartitionKey(spec, java_schema), records)]
        wrapper = self._iceberg.data.InternalRecordWrapper(java_schema.asStruct())
        groups: dict[str, tuple[Any, Any]] = {}
        for record in records:
            key = self._iceberg.PartitionKey(spec, java_schema)
            key.partition(wrapper.wrap(record))
            _, members = groups.setdefault(str(key), (key, self._rows.jvm.java.util.ArrayList()))
            members.add(record)
        return list(groups.values())

    def _loaded_positions(self, delete_files: Iterable[Any], location: str) -> Any:
        files = self._rows.jvm.java.util.ArrayList()
        for file in delete_files:
            files.add(file)
        opened = self._rows.function(
            self._java.io(), "newInputFile", declared_by="io.FileIO", result="io.InputFile", argument="DeleteFile"
        )
        return self._iceberg.data.BaseDeleteLoader(opened).loadPositionDeletes(files, location)


_DATA: Final = ("newDataWriter", "toDataFile")
_EQUALITY_DELETES: Final = ("newEqualityDeleteWriter", "toDeleteFile")


def _content(file: Any) -> str:
    return str(file.content().name())
