"""The fixed cost of a batch: requests to the stores and the catalog, their price, and bytes that stay.

``python -m benchmarks.requests_of_a_batch`` runs a pipeline on a table of a few rows, in this process and without
Spark, and counts. Requests do not depend on the store: local disk stands for S3. What a further task costs is seen from
batches that deliver the same changes by one task and by several.

The price is that of a thousand batches or tasks, in US dollars. ``--writes`` and ``--reads`` set that of a million
requests; the defaults are list prices of S3 Standard as we know them. Deletions are free there, and so is the catalog.
"""

import json
import os
import secrets
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Self
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, In
from pyiceberg.io.pyarrow import PyArrowFileIO
from rich.console import Console
from rich.table import Table as Printed

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_batch import find_work
from icefloe.batch.run_settings import Credentials
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.model import Pipeline
from icefloe.storage.requests import RequestKind, Requests
from support.known_key import known_bits

FOLDER: Final = Path(__file__).parents[1] / ".cache" / "requests_of_a_batch"
STORE: Final[Mapping[str, str]] = {
    "get": "get", "get_ranges": "get", "put": "put", "create": "put",
    "head": "head", "list": "list", "delete": "delete",
}  # fmt: skip
COLUMNS: Final = (*dict.fromkeys(STORE.values()), "table files", "catalog")
READS: Final = ("get", "head", "table files")
WRITES: Final = ("put", "list")
SCHEMA: Final = pa.schema([pa.field("id", pa.int64()), pa.field("word", pa.string())])
FILES: Final = 4
FILE_ROWS: Final = 200
MANY_TASKS: Final = {"map_task_bytes": 1}
MANY_RANGES: Final = {"target_size_bytes": 1}
KEPT: Final = ("offsets", "commits", "reports", "status.json")


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(description="the requests of a batch")
    parser.add_argument("--writes", type=float, default=5.0, help="US dollars for a million puts and lists")
    parser.add_argument("--reads", type=float, default=0.4, help="US dollars for a million gets and heads")
    prices = parser.parse_args(arguments)
    # One key of row hashes, which decides how many ranges there are: the same requests in each run.
    secrets.randbits = known_bits
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    catalog = SqlCatalog("lab", **_properties())
    catalog.create_namespace("db")
    table = catalog.create_table("db.rows", SCHEMA)

    def commit_twice() -> None:
        table.append(_rows(200))
        table.overwrite(_rows(8), overwrite_filter=EqualTo(term="id", value=8))

    steps: dict[str, Callable[[], Any]] = {
        # It tries its places, by more requests than any later one.
        "the first batch": lambda: table.append(_rows(-1)),
        "insert_only": lambda: table.append(_rows(*range(100))),
        "shuffle, 1 file": lambda: table.overwrite(_rows(7), overwrite_filter=EqualTo(term="id", value=7)),
        "shuffle, 2 steps": commit_twice,
        "nothing new": lambda: None,
    }
    printed = Printed("batch", *COLUMNS, "US$ per 1,000", "seconds", box=None)
    for title, change in steps.items():
        change()
        counts, seconds = _counted(lambda: run_batch(_session(), environ=os.environ))
        printed.add_row(title, *_cells(counts, prices), f"{seconds:.2f}")
    counts, seconds = _counted(lambda: find_work(_session()))
    printed.add_row("a look", *_cells(counts, prices), f"{seconds:.2f}")
    for title, each in _further_tasks(catalog).items():
        printed.add_row(title, *_cells(each, prices), "-")
    console = Console(highlight=False, width=110)
    console.print(printed)
    checkpoint = FOLDER / "storage" / "checkpoints" / "rows"
    for name in KEPT:
        sizes = [path.stat().st_size for path in (checkpoint / name, *(checkpoint / name).rglob("*")) if path.is_file()]
        console.print(f"{name:12} {max(sizes):6,} bytes at most, {len(sizes)} of them")
    return 0


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts requests by kind; a fetch of ranges counts each of them, a deletion each thousand keys."""
    counts: Counter[str] = Counter()
    of_store = Requests.counted

    def counting_store(requests: Requests, kind: RequestKind, number: int = 1) -> Any:
        counts[STORE[kind]] += number
        return of_store(requests, kind, number)

    def counting(function: Any, column: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            counts[column] += 1
            return function(*arguments, **keywords)

        return call

    patched = [patch.object(Requests, "counted", counting_store)]
    patched.append(patch.object(PyArrowFileIO, "new_input", counting(PyArrowFileIO.new_input, "table files")))
    patched.append(patch.object(SqlCatalog, "load_table", counting(SqlCatalog.load_table, "catalog")))
    for each in patched:
        each.start()
    yield counts
    for each in patched:
        each.stop()


def _further_tasks(catalog: SqlCatalog) -> dict[str, dict[str, float]]:
    """The requests of each further map task and range, by titles."""
    table = catalog.create_table("db.files", SCHEMA)
    for start in range(0, FILES * FILE_ROWS, FILE_ROWS):
        table.append(_rows(*range(start, start + FILE_ROWS)))
    one, many = (_batch(f"load_{number}", "full", shuffle) for number, shuffle in enumerate(({}, MANY_TASKS)))
    further = {"a further map task, insert_only": many.less(one, many.map_tasks - one.map_tasks)}

    pipelines = [("update", {}), ("tasks", MANY_TASKS), ("ranges", MANY_RANGES), ("both", MANY_TASKS | MANY_RANGES)]
    for name, shuffle in pipelines:
        _batch(name, "from_now", shuffle)
    ids = range(0, FILES * FILE_ROWS, 2)
    table.overwrite(_rows(*ids, word="another word"), overwrite_filter=In(term="id", literals=list(ids)))
    one, tasks, ranges, both = (_batch(name, "from_now", shuffle) for name, shuffle in pipelines)
    map_tasks, num_ranges = tasks.map_tasks - one.map_tasks, ranges.ranges - one.ranges
    further["a further map task, shuffle"] = of_task = tasks.less(one, map_tasks)
    further["a further range, one map output"] = ranges.less(one, num_ranges)
    of_task_and_ranges = both.less(ranges, map_tasks)
    further["a further map output in a range"] = {
        column: (of_task_and_ranges[column] - of_task[column]) / num_ranges for column in COLUMNS
    }
    return further


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The requests of a batch, and the number of its tasks."""

    counts: Mapping[str, int]
    map_tasks: int
    ranges: int

    def less(self, other: Self, number: int) -> dict[str, float]:
        """The difference, for each of a number of tasks."""
        return {column: (self.counts[column] - other.counts[column]) / number for column in COLUMNS}


def _batch(name: str, initial_load: str, shuffle: Mapping[str, int]) -> _Batch:
    """Runs the next batch of a pipeline over the table of several files."""
    session = _session(name, "db.files", initial_load=initial_load, shuffle={"partitions": 8, **shuffle})
    with counted() as counts:
        report = run_batch(session, environ=os.environ).report
    if report is None:
        raise RuntimeError(f"{name} had nothing to do")
    return _Batch(counts=counts, map_tasks=report.map_tasks, ranges=report.ranges)


def _counted(action: Callable[[], Any]) -> tuple[Mapping[str, int], float]:
    """Requests and seconds."""
    with counted() as counts:
        started = perf_counter()
        action()
        return counts, perf_counter() - started


def _cells(counts: Mapping[str, float], prices: Namespace) -> list[str]:
    """The numbers of a row, and what a thousand of it cost."""
    reads, writes = (sum(counts[column] for column in columns) for columns in (READS, WRITES))
    price = (reads * prices.reads + writes * prices.writes) / 1_000
    return [*(f"{counts[column]:g}" for column in COLUMNS), f"{price:.3f}"]


def _properties() -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{FOLDER}/catalog.db", "warehouse": f"file://{FOLDER}/warehouse"}


def _rows(*ids: int, word: str = "word") -> pa.Table:
    return pa.table({"id": ids, "word": [f"{word} {number}" for number in ids]}, SCHEMA)


def _session(name: str = "rows", table: str = "db.rows", **keys: Any) -> PipelineSession:
    sink = {"type": "files", "path": f"file://{FOLDER}/changes/{name}"}
    document = {
        "version": 1, "catalog": {"name": "lab", **_properties()}, "table": table, "identifier_columns": ["id"],
        "storage": f"file://{FOLDER}/storage", "engine": "local", "sink": sink, **keys,
    }  # fmt: skip
    path = FOLDER / f"{name}.yaml"
    path.write_text(json.dumps(document))
    return PipelineSession.open(Pipeline.load(path), credentials=Credentials(), environ=os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
