"""Operations that only Iceberg's Java API has: delete files, rewrites, branches, several commits at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyiceberg.types import FixedType

from histories.bench import pick
from histories.column_values import Seeds, value_of
from histories.history import operations_of
from histories.java_bench import JavaBench
from histories.table_changes import leaf_paths

__all__ = ["JAVA_OPERATIONS"]


def append_as(bench: JavaBench, rows: Sequence[Seeds], file_format: str) -> None:
    """Append one file in another format."""
    bench.commits.append(bench.write(rows, file_format=file_format), **bench.options)


def delete_positions(bench: JavaBench, rows: Picks, granularity: str = "file", referenced: bool = False) -> None:
    """Delete rows by position: by deletion vectors on V3, by position delete files before."""
    files = [task.file() for task in bench.scan_tasks()]
    deletes, replaced = position_delete_files(bench, positions_of(files, rows), granularity, referenced)
    bench.commits.row_delta(deletes=deletes, removed_deletes=replaced, **bench.options)


def delete_keys(bench: JavaBench, columns: Sequence[int], keys: Sequence[Seeds], file: int = 0) -> None:
    """Delete rows by the values of columns, in the whole table or in the partition of a data file."""
    bench.commits.row_delta(deletes=equality_delete_files(bench, columns, keys, file), **bench.options)


def row_delta(
    bench: JavaBench,
    rows: Sequence[Seeds] = (),
    deleted: Picks = (),
    deleted_added: Picks = (),
    columns: Sequence[int] = (),
    keys: Sequence[Seeds] = (),
    keys_of_rows: bool = False,
    file: int = 0,
    granularity: str = "file",
) -> None:
    """The commit of a streaming writer: rows, keys that they replace, positions, also of rows that it adds itself."""
    added = bench.write(rows) if rows else []
    old = [task.file() for task in bench.scan_tasks()]
    positions = {**positions_of(old, deleted), **positions_of(added, deleted_added)}
    deletes, replaced = position_delete_files(bench, positions, granularity, referenced=False)
    deletes += equality_delete_files(bench, columns, [*keys, *keys_of(bench, columns, rows, keys_of_rows)], file)
    bench.commits.row_delta(rows=added, deletes=deletes, removed_deletes=replaced, **bench.options)


def upsert_keys(bench: JavaBench, columns: Sequence[int], rows: Sequence[Seeds]) -> None:
    """Delete the keys of all rows in each partition that gets some, and add the rows."""
    added = bench.write(rows)
    keys = keys_of(bench, columns, rows, True)
    deletes = [each for file in added for each in equality_delete_files(bench, columns, keys, partition_of=file)]
    bench.commits.row_delta(rows=added, deletes=deletes, **bench.options)


def drop_deletes(bench: JavaBench, file: int) -> None:
    """Take delete files of a data file away and nothing else: their rows come back."""
    tasks = [task for task in bench.scan_tasks() if task.deletes()]
    bench.commits.row_delta(removed_deletes=[pick(list(pick(tasks, file).deletes()), file)], **bench.options)


def drop_files(bench: JavaBench, files: Sequence[int]) -> None:
    """Remove whole data files."""
    bench.commits.delete([task.file() for task in _picked(bench, files)], **bench.options)


def rewrite_rows(bench: JavaBench, files: Sequence[int], dropped: Sequence[int], added: Sequence[Seeds]) -> None:
    """Copy-on-write: put the live rows of data files, less some and with some more, in the place of the files."""
    tasks = _picked(bench, files)
    live = [row for task in tasks for row in bench.live_rows(task)]
    gone = {number % len(live) for number in dropped} if live else set()
    kept = [row for index, row in enumerate(live) if index not in gone]
    written = [*(bench.writers.data_files(kept) if kept else []), *(bench.write(added) if added else [])]
    bench.commits.overwrite(removed=[task.file() for task in tasks], added=written, **bench.options)


def compact(bench: JavaBench, files: Sequence[int], keep_sequence: bool = True, drop_deletes: bool = False) -> None:
    """Put the live rows of data files together into new ones; keys deleted before stay deleted."""
    tasks = _picked(bench, files)
    live = [row for task in tasks for row in bench.live_rows(task)]
    own = _deletes_of_no_other(bench, tasks) if drop_deletes else []
    head = bench.writers.java.currentSnapshot()
    bench.commits.rewrite(
        removed=[*(task.file() for task in tasks), *own],
        added=bench.writers.data_files(live) if live else [],
        sequence_number=head.sequenceNumber() if keep_sequence else None,
        **bench.options,
    )


def compact_deletes(bench: JavaBench, granularity: str = "file") -> None:
    """Write all position delete files of the table anew, in another granularity."""
    old: dict[str, Any] = {}
    positions: dict[Any, list[int]] = {}
    for task in bench.scan_tasks():
        earlier = [each for each in task.deletes() if each.content().name() == "POSITION_DELETES"]
        if earlier:
            old.update({str(each.location()): each for each in earlier})
            index = bench.writers._loaded_positions(earlier, task.file().location())
            positions[task.file()] = [n for n in range(task.file().recordCount()) if index.isDeleted(n)]
    new = bench.writers.position_deletes(positions, granularity=granularity)
    bench.commits.rewrite(removed=old.values(), added=new, **bench.options)


def rewrite_manifests(bench: JavaBench) -> None:
    """Write the manifests anew."""
    bench.commits.updates().rewriteManifests().clusterBy(_by_format(bench)).commit()


def upgrade(bench: JavaBench) -> None:
    """Go to the next format version."""
    version = bench.table().metadata.format_version + 1
    bench.writers.java.updateProperties().set("format-version", str(min(version, 3))).commit()


def on_branch(bench: JavaBench, name: str, operations: Sequence[Mapping[str, Any]]) -> None:
    """Commit to a branch, which begins at the head of main."""
    if name not in bench.table().metadata.refs:
        bench.writers.manage("createBranch", name, bench.head() or 0)
    bench.options = {"branch": name}
    try:
        for operation in operations_of(operations):
            bench.apply(operation)
    finally:
        bench.options = {}


def fast_forward(bench: JavaBench, name: str, operations: Sequence[Mapping[str, Any]]) -> None:
    """Commit to a branch, then move main to its head; the branch need not begin there."""
    on_branch(bench, name, operations)
    bench.writers.manage("fastForwardBranch", "main", name)


def cherry_pick(bench: JavaBench, files: Sequence[Sequence[Seeds]], then: Sequence[Mapping[str, Any]] = ()) -> None:
    """Stage an append, commit other things, then publish it."""
    staged = bench.writers.append([file for rows in files for file in bench.write(rows)], wap_id=f"w{len(then)}")
    bench.trace.observe(bench.table())
    for operation in operations_of(then):
        bench.apply(operation)
    bench.writers.manage("cherrypick", staged)


def publish_together(bench: JavaBench, parts: Sequence[Mapping[str, Any]]) -> None:
    """Several commits in one transaction; each sees the files that were there before it."""
    try:
        with bench.writers.transaction() as transaction:
            bench.commits = transaction
            for part in operations_of(parts):
                bench.operations[part.name](bench, **part.arguments)
    finally:
        bench.commits = bench.writers


JAVA_OPERATIONS: Final = {
    function.__name__: function
    for function in (
        append_as,
        delete_positions,
        delete_keys,
        row_delta,
        upsert_keys,
        drop_deletes,
        drop_files,
        rewrite_rows,
        compact,
        compact_deletes,
        rewrite_manifests,
        upgrade,
        on_branch,
        fast_forward,
        cherry_pick,
        publish_together,
    )
}


def _picked(bench: JavaBench, files: Sequence[int]) -> list[Any]:
    tasks = bench.scan_tasks()
    indices = sorted({pick(range(len(tasks)), number) for number in files})
    return [tasks[index] for index in indices]


def _deletes_of_no_other(bench: JavaBench, tasks: Sequence[Any]) -> list[Any]:
    own = {str(delete.location()): delete for task in tasks for delete in task.deletes()}
    locations = {str(task.file().location()) for task in tasks}
    for task in bench.scan_tasks():
        if str(task.file().location()) not in locations:
            for delete in task.deletes():
                own.pop(str(delete.location()), None)
    return list(own.values())


def _by_format(bench: JavaBench) -> Any:
    """A function that puts the files of one format into one manifest."""
    rows = bench.writers._rows
    methods = rows.jvm.java.lang.invoke
    signature = methods.MethodType.methodType(rows.named("FileFormat"))
    handle = methods.MethodHandles.publicLookup().findVirtual(rows.named("ContentFile"), "format", signature)
    return methods.MethodHandleProxies.asInterfaceInstance(rows.named("java.util.function.Function"), handle)


Picks = Sequence[Sequence[int]]
"""Rows by position: the number of a data file and that of a row in it."""


def positions_of(files: Sequence[Any], rows: Picks) -> dict[Any, list[int]]:
    found: dict[int, set[int]] = {}
    for number, position in rows if files else ():
        index = number % len(files)
        found.setdefault(index, set()).add(position % files[index].recordCount())
    return {files[index]: sorted(positions) for index, positions in found.items()}


def position_delete_files(
    bench: JavaBench, positions: Mapping[Any, Sequence[int]], granularity: str, referenced: bool
) -> tuple[list[Any], list[Any]]:
    if not positions:
        return [], []
    if bench.table().metadata.format_version < 3:
        referenced = referenced and granularity == "file"
        return bench.writers.position_deletes(positions, granularity=granularity, referenced=referenced), []
    vectors = bench.writers.deletion_vectors(positions, branch=bench.options.get("branch"))
    return list(vectors.added), list(vectors.rewritten)


def equality_delete_files(
    bench: JavaBench, columns: Sequence[int], keys: Sequence[Seeds], file: int = 0, partition_of: Any = None
) -> list[Any]:
    if not keys or not columns:
        return []
    schema = bench.table().schema()
    names = list(dict.fromkeys(".".join(pick(leaf_paths(schema), column)) for column in columns))
    kinds = [schema.find_type(name) for name in names]
    rows = [[value_of(kind, key[i % len(key)]) for i, kind in enumerate(kinds)] for key in keys if key]
    # Iceberg 1.11 reads the keys of a delete file into the same byte array and the same struct: only the last counts.
    nested = [name for name in names if "." in name]
    for name in nested:
        parents = name.split(".")
        bench.undroppable_ids.update(
            schema.find_field(".".join(parents[: n + 1])).field_id for n in range(len(parents))
        )
    if nested or any(isinstance(kind, FixedType) for kind in kinds):
        rows = rows[-1:]
    if partition_of is None and not any(spec.isUnpartitioned() for spec in bench.writers.java.specs().values()):
        partition_of = pick(bench.scan_tasks(), file).file()
    return bench.writers.equality_deletes(names, rows, partition_of=partition_of)


def keys_of(bench: JavaBench, columns: Sequence[int], rows: Sequence[Seeds], wanted: bool) -> list[list[int | None]]:
    """The seeds of the key columns of rows; fields of structs take those of their column."""
    schema = bench.table().schema()
    names = [field.name for field in schema.fields]
    paths = [pick(leaf_paths(schema), column) for column in dict.fromkeys(columns)] if wanted else []
    indices = [names.index(path[0]) for path in paths]
    return [[row[index % len(row)] for index in indices] for row in rows if indices and row]
