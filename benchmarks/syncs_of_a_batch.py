"""The cost of surviving a loss of power on local disk: the fsync calls of a batch, and its time with and without.

``python -m benchmarks.syncs_of_a_batch`` delivers one batch of a rewritten table again and again, in this process.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import Credentials
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.model import Pipeline

FOLDER: Final = Path(__file__).parents[1] / ".cache" / "syncs_of_a_batch"
ROWS: Final = 300_000
REPETITIONS: Final = 7


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    _make_table()
    calls: list[float] = []
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        started = perf_counter()
        fsync(descriptor)
        calls.append(perf_counter() - started)

    synced, unsynced = [], []
    for _ in range(REPETITIONS):
        with patch.object(os, "fsync", counted):
            synced.append(_delivered())
        with patch.object(os, "fsync", lambda _: None):
            unsynced.append(_delivered())
    each = [f"{kept:.2f} {lost:.2f}" for kept, lost in zip(synced, unsynced, strict=True)]
    ratio = median(synced) / median(unsynced)
    sys.stdout.write(
        f"{len(calls) // REPETITIONS} fsync calls a batch, {sum(calls) / REPETITIONS:.2f} s in them on all threads "
        f"together; {median(synced):.2f} s with them, {median(unsynced):.2f} s "
        f"without, ratio {ratio:.2f} (each: {', '.join(each)})\n"
    )
    return 0


def _delivered() -> float:
    """The seconds of one batch."""
    for name in ("storage", "changes"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    session = PipelineSession.open(Pipeline.load(_pipeline()), credentials=Credentials(), environ=os.environ)
    started = perf_counter()
    run_batch(session, environ=os.environ)
    return perf_counter() - started


def _make_table() -> None:
    catalog = SqlCatalog("lab", **_properties())
    catalog.create_namespace("db")
    numbers = np.random.default_rng(1)
    rows = pa.table({"id": np.arange(ROWS), **{f"value_{number}": numbers.random(ROWS) for number in range(8)}})
    table = catalog.create_table("db.rows", rows.schema)
    for start in range(0, ROWS, ROWS // 6):
        table.append(rows.slice(start, ROWS // 6))
    updated = np.where(np.arange(ROWS) % 10 == 0, 0.0, rows["value_0"].to_numpy())
    table.overwrite(rows.set_column(1, "value_0", pa.array(updated)))


def _properties() -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{FOLDER}/catalog.db", "warehouse": f"file://{FOLDER}/warehouse"}


def _pipeline() -> Path:
    document = {
        "version": 1, "catalog": {"name": "lab", **_properties()}, "table": "db.rows", "identifier_columns": ["id"],
        "initial_load": "from_earliest", "storage": f"file://{FOLDER}/storage", "engine": "local",
        "sink": {"type": "files", "path": f"file://{FOLDER}/changes"},
    }  # fmt: skip
    path = FOLDER / "rows.yaml"
    path.write_text(json.dumps(document))
    return path


if __name__ == "__main__":
    sys.exit(main())
