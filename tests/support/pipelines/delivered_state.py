"""The rows of a consumer that applies every batch in order, as docs/sinks.md tells it to."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

__all__ = ["consumed_rows"]

_WEIGHTS: Final = {"INSERT": 1, "UPDATE_AFTER": 1, "DELETE": -1, "UPDATE_BEFORE": -1}
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
        for name in [name for part in manifest["parts"] for name in part["names"]]:
            for row in pq.ParquetFile(folder / name).read().to_pylist():
                held[tuple(value for key, value in row.items() if key not in _OWN)] += _WEIGHTS[row["_change_type"]]
    return Counter({row: count for row, count in held.items() if count})
