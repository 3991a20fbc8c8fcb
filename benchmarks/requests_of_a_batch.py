"""What a batch costs whatever its size: requests to the stores and the catalog, and bytes that stay.

``python -m benchmarks.requests_of_a_batch`` runs a pipeline on a table of a few rows, in this process and without
Spark, and counts. Requests do not depend on the store: local disk stands for S3.
"""

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import PyArrowFileIO
from rich.console import Console
from rich.table import Table as Printed

from icefloe.batch.credentials import Credentials
from icefloe.batch.open_batch import find_work
from icefloe.batch.session import PipelineSession
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.pipeline_file import load_pipeline
from icefloe.storage.requests import RequestKind, Requests

FOLDER: Final = Path(__file__).parents[1] / ".cache" / "requests_of_a_batch"
STORE: Final[Mapping[str, str]] = {
    "get": "get", "get_ranges": "get", "put": "put", "create": "put",
    "head": "head", "list": "list", "delete": "delete",
}  # fmt: skip
COLUMNS: Final = (*dict.fromkeys(STORE.values()), "table files", "catalog")
KEPT: Final = ("offsets", "commits", "reports", "status.json")


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    catalog = SqlCatalog("lab", **_properties())
    catalog.create_namespace("db")
    table = catalog.create_table("db.rows", pa.schema([pa.field("id", pa.int64()), pa.field("word", pa.string())]))
    steps: dict[str, Callable[[], Any]] = {
        "insert_only": lambda: table.append(_rows(*range(100))),
        "shuffle, 1 file": lambda: table.overwrite(_rows(7), overwrite_filter=EqualTo("id", 7)),
        "shuffle, 2 steps": lambda: [
            table.append(_rows(200)),
            table.overwrite(_rows(8), overwrite_filter=EqualTo("id", 8)),
        ],
        "nothing new": lambda: None,
    }
    printed = Printed("batch", *COLUMNS, "seconds", box=None)
    for title, change in steps.items():
        change()
        printed.add_row(title, *_counted(lambda: run_batch(_session(), environ=os.environ)))
    printed.add_row("a look", *_counted(lambda: find_work(_session())))
    console = Console(highlight=False)
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


def _counted(action: Callable[[], Any]) -> list[str]:
    """A row of the table."""
    with counted() as counts:
        started = perf_counter()
        action()
        seconds = perf_counter() - started
    return [*(str(counts[column]) for column in COLUMNS), f"{seconds:.2f}"]


def _properties() -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{FOLDER}/catalog.db", "warehouse": f"file://{FOLDER}/warehouse"}


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "word": [f"word {number}" for number in ids]})


def _session() -> PipelineSession:
    sink = {"type": "files", "path": f"file://{FOLDER}/changes"}
    document = {
        "version": 1, "catalog": {"name": "lab", **_properties()}, "table": "db.rows", "identifier_columns": ["id"],
        "storage": f"file://{FOLDER}/storage", "engine": "local", "sink": sink,
    }  # fmt: skip
    path = FOLDER / "rows.yaml"
    path.write_text(json.dumps(document))
    return PipelineSession.open(load_pipeline(path), credentials=Credentials(), environ=os.environ)


if __name__ == "__main__":
    sys.exit(main())
