"""A table of random rows with equal keys, nulls, NaN and texts of all kinds, and what its sorted changes must be."""

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.pipelines.workspace import Outcome, Workspace, icefloe

TEXTS = ["", "a", "ab", "a\x00", "é", "Z", "\uffff", "\U0001f600", "zz" * 40]


class RandomTable(Workspace):
    """A pipeline whose files are sorted by columns that are no key."""

    def fill(self, seed: int, count: int = 3000) -> None:
        random = np.random.default_rng(seed)
        for first in range(0, count, count // 4):
            ids = np.arange(first, first + count // 4)
            values = random.choice([0.0, -0.0, float("nan"), float("inf"), -1.5, 7.0, 1e-9], len(ids))
            words = random.choice(TEXTS, len(ids)).tolist()
            columns = {
                "id": random.permutation(ids),
                "value": pa.array(values, mask=random.random(len(ids)) < 0.1),
                "word": pa.array([None if random.random() < 0.1 else word for word in words], pa.string()),
            }
            self.table.append(pa.table(columns))

    def command(self, name: str, *arguments: object, sink: dict[str, Any] | None = None, **keys: Any) -> Outcome:
        shuffle = {"target_size_bytes": 4000, "map_task_bytes": 1, "memory_bytes": 64 << 20}
        whole = {"type": "files", "path": self.target.as_uri(), "order_by": ["value", "word"], **(sink or {})}
        return icefloe(name, self.pipeline(sink=whole, engine="local", **{"shuffle": shuffle, **keys}), *arguments)

    @property
    def target(self) -> Path:
        return self.folder / "sorted"

    def parts(self, batch: int) -> list[Path]:
        folder = self.target / f"batch={batch}"
        manifest = json.loads((folder / "_manifest.json").read_text())
        return [folder / name for part in manifest["parts"] for name in part["names"]]

    def stream(self, batch: int) -> pa.Table:
        return pa.concat_tables(pq.ParquetFile(path).read() for path in self.parts(batch))


def require_sorted(changes: pa.Table, *columns: str) -> None:
    """As DuckDB sorts: nulls first, NaN above all, texts by their bytes; then by id and step."""
    names = ", ".join(f"{name} nulls first" for name in columns)
    kinds = "case _change_type when 'DELETE' then 0 when 'INSERT' then 3 when 'UPDATE_BEFORE' then 1 else 2 end"
    expected = duckdb.sql(f"select id, _change_type from changes order by {names}, id, _change_ordinal, {kinds}")
    assert changes.select(["id", "_change_type"]).to_pylist() == expected.to_arrow_table().to_pylist()
