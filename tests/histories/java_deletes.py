"""Delete files for what a history names by numbers: rows by file and position, keys by column and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.types import FixedType

from histories.bench import pick
from histories.column_values import Seeds, value_of
from histories.java_bench import JavaBench
from histories.table_changes import leaf_paths

__all__ = ["Picks", "equality_delete_files", "keys_of", "position_delete_files", "positions_of"]

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
