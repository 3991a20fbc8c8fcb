"""A table of one file a day whose files are all rewritten, written by PyIceberg: no JVM."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

__all__ = ["RewrittenDays"]

_CATALOG: Final = "days"
_TABLE: Final = "db.days"
_NUMBERS: Final = 6
_CHANGED: Final = 820
"""One row in so many changes, as in the other benchmarks of rewritten files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenDays:
    """The table. Its last commit replaces each file by one with the same rows in another order, a few of them changed.

    Attributes:
        folder: of the table, and of its runs.
        after_snapshot_id: the snapshot before that commit.
        up_to_snapshot_id: the commit.
    """

    folder: Path
    after_snapshot_id: int
    up_to_snapshot_id: int

    @classmethod
    def make(cls, folder: Path, *, days: int, rows: int) -> Self:
        """Writes ``days`` files of ``rows`` rows, and writes them again."""
        folder.mkdir(parents=True)
        catalog = SqlCatalog(_CATALOG, **_properties(folder))
        catalog.create_namespace("db")
        fields = [
            NestedField(1, "id", LongType()),
            NestedField(2, "day", IntegerType()),
            NestedField(3, "word", StringType()),
            *(NestedField(4 + number, f"number_{number}", DoubleType()) for number in range(_NUMBERS)),
        ]
        by_day = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
        table = catalog.create_table(_TABLE, Schema(*fields), partition_spec=by_day)
        columns = table.schema().as_arrow()
        for is_rewrite in (False, True):
            all_days = pa.concat_tables(_day(day, rows, is_rewrite=is_rewrite).cast(columns) for day in range(days))
            (table.dynamic_partition_overwrite if is_rewrite else table.append)(all_days)
        snapshots = [snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots]
        return cls(folder=folder, after_snapshot_id=snapshots[0], up_to_snapshot_id=snapshots[-1])

    def command(self, place: Path) -> list[str]:
        """Delivers the commit by the local engine; all that it writes goes to a folder."""
        document = {
            "version": 1, "name": "days", "catalog": {"name": _CATALOG, **_properties(self.folder)}, "table": _TABLE,
            "identifier_columns": ["id"], "storage": place.as_uri(), "engine": "local",
            "sink": {"type": "files", "path": f"{place.as_uri()}/changes"}, "shuffle": {"map_task_bytes": "1MiB"},
        }  # fmt: skip
        pipeline = place / "days.yaml"
        pipeline.write_text(json.dumps(document))
        return [
            sys.executable, "-m", "icefloe", "run", str(pipeline), "--json",
            "--after-snapshot-id", str(self.after_snapshot_id), "--up-to-snapshot-id", str(self.up_to_snapshot_id),
        ]  # fmt: skip


def _properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def _day(day: int, rows: int, *, is_rewrite: bool) -> pa.Table:
    random = np.random.default_rng(day)
    ids = random.permutation(rows) + day * rows
    numbers = [random.integers(0, 5_000, rows).astype(float) for _ in range(_NUMBERS)]
    if is_rewrite:
        numbers[0][ids % _CHANGED == 0] += 1
    columns = {"id": ids, "day": np.full(rows, day, np.int32), "word": pa.array(np.char.mod("word %d", ids % 4_000))}
    table = pa.table({**columns, **{f"number_{number}": values for number, values in enumerate(numbers)}})
    # A writer that joins loses the order of the rows: each is hashed, so the time is in the map tasks.
    return table.take(pa.array(random.permutation(rows))) if is_rewrite else table
