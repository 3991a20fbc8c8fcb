"""The rows that a consumer holds who applies all batches in order: an oracle that shares no code with `verify`."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyiceberg.table import Table

__all__ = ["consumed_rows", "delivered_changes", "replayed", "table_rows"]

_WEIGHTS = {"INSERT": 1, "UPDATE_AFTER": 1, "DELETE": -1, "UPDATE_BEFORE": -1}


def replayed(sink: Path, checkpoint: Path, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """The rows by their values in some columns; a row that was deleted more often than inserted counts below 0.

    Args:
        sink: folder of the files sink.
        checkpoint: folder of the checkpoint, which says where a reload drops what came before.
        columns: of the table.
    """
    held: Counter[tuple[Any, ...]] = Counter()
    for number in range(len(list((checkpoint / "offsets").iterdir()))):
        if json.loads((checkpoint / f"offsets/{number}.json").read_text())["spec"]["is_reload"]:
            held.clear()
        held.update(delivered_rows(sink / f"batch={number}", columns))
    return Counter({row: count for row, count in held.items() if count})


def delivered_rows(batch: Path, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """The sum of the changes that the manifest in the folder of a batch names."""
    held: Counter[tuple[Any, ...]] = Counter()
    for row in delivered_changes(batch):
        held[tuple(row[each] for each in columns)] += _WEIGHTS[row["_change_type"]]
    return held


def delivered_changes(batch: Path) -> Iterator[dict[str, Any]]:
    """The changes in the folder of a batch, as far as its manifest names them."""
    for part in json.loads((batch / "_manifest.json").read_text())["parts"]:
        for name in part["names"]:
            yield from pq.ParquetFile(batch / name).read().to_pylist()


def table_rows(table: Table, columns: Sequence[str], *, snapshot_id: int | None = None) -> Counter[tuple[Any, ...]]:
    """The rows of the table at a snapshot; None: as it is now."""
    rows = table.refresh().scan(selected_fields=tuple(columns), snapshot_id=snapshot_id).to_arrow().to_pylist()
    return Counter(tuple(row[name] for name in columns) for row in rows)


_OWN: Final = ("_batch", "_change_type", "_change_ordinal", "_commit_snapshot_id", "_commit_timestamp")


def consumed_rows(sink: Path) -> Counter[tuple[Any, ...]]:
    """Reads manifests alone: stops at the first number without one, and drops its rows where a manifest begins anew."""
    numbers = sorted(int(path.name.partition("=")[2]) for path in sink.glob("batch=*"))
    held: Counter[tuple[Any, ...]] = Counter()
    for number in range(min(numbers, default=0), max(numbers, default=-1) + 1):
        folder = sink / f"batch={number}"
        if not (folder / "_manifest.json").is_file():
            break
        manifest = json.loads((folder / "_manifest.json").read_text())
        if manifest["batch"]["after_snapshot_id"] is None:
            held.clear()
        for row in delivered_changes(folder):
            held[tuple(value for key, value in row.items() if key not in _OWN)] += _WEIGHTS[row["_change_type"]]
    return Counter({row: count for row, count in held.items() if count})
