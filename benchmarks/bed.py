"""Whole runs over a table that Spark rewrote, next to the raw decode of its files and to Iceberg's changelog view.

``PYTHONPATH=plugins:tests:. python -m benchmarks.bed``, with ``--rows 41000000`` for a larger table, ``--bed update``
and ``--way local`` for some of the beds and ways, ``--json FILE`` for the numbers. Every run is a program of its own:
CPU and memory are those of all its processes. The bed ``fixed`` has 1,000 rows, so its runs cost little but their
start. ``raw`` is the decode of both snapshots' files in one process without its start; ``raw / way`` divides it by the
CPU that the way takes above its own fixed run. ``airflow`` runs the backfill DAG as `airflow dags test` does, with
Spark or, as ``airflow-auto``, without it where the input is small; its wall is that of the run, without Airflow's
start. Ratios of one run compare, seconds of two runs do not.
"""

import json
import os
import shutil
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.bed_peers import CORES
from benchmarks.bed_tables import APPENDED, BEDS, FIXED, bed_tables
from benchmarks.figures import parser_of, write_figures
from benchmarks.process_tree import TreeUsage, run_tree
from icefloe.units import format_bytes
from support.spark.spark_lab import CATALOG, NAMESPACE

FOLDER: Final = Path(__file__).parents[1] / ".cache" / "bed"
RAW: Final = "raw"
CONTEXT: Final = "context"
VIEW: Final = "view"
READERS: Final = ("reader", "reader-parquet")
WAYS: Final = {
    RAW: "raw decode",
    "local": "icefloe, local",
    "spark": "icefloe, Spark",
    "airflow": "Airflow, Spark",
    "airflow-auto": "Airflow, auto",
    "reader": "icefloe.spark",
    "reader-parquet": "icefloe.spark, written",
    CONTEXT: "bare Spark context",
    VIEW: "create_changelog_view",
}
_AIRFLOW: Final = {"airflow": "spark", "airflow-auto": "auto"}
"""Engines of the ways under Airflow."""
_CHANGES: Final = ("insert", "delete", "update_before", "update_after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One way over one bed; of several repetitions the one with the least CPU.

    Attributes:
        compute_seconds: CPU above the same way's run over the fixed bed; of the raw decode without its start. None for
            appended rows, because the fixed bed is shuffled and they are not.
        raw_over_compute: CPU of the raw decode divided by that.
        changes: number of changes delivered; None for a way that delivers none.
        task_seconds: wall of each task that Airflow ran; empty where it ran none.
    """

    bed: str
    way: str
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    compute_seconds: float | None
    raw_over_compute: float | None
    changes: int | None
    task_seconds: Mapping[str, float]


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("whole runs next to the raw decode and Iceberg's changelog view")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of a table")
    parser.add_argument("--bed", action="append", choices=list(BEDS), help="a bed; again for more; default: all")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="a way; again for more; default: all")
    parser.add_argument("--repetitions", type=int, default=1)
    options = parser.parse_args(arguments)
    say = partial(Console(width=110).print, highlight=False)
    say(f"Making the tables, the first time only: {options.rows:,} rows of 19 columns each ...")
    ways = [way for way in WAYS if options.way is None or way in (RAW, *options.way)]
    beds = [bed for bed in BEDS if options.bed is None or bed in (FIXED, *options.bed)]
    warehouse = bed_tables(FOLDER, options.rows, beds)
    usages = {}
    for bed, way in product(beds, ways):
        if way != CONTEXT or bed == FIXED:  # it reads no table
            usages[bed, way] = least = _least(warehouse, bed, way, options.repetitions)
            say(f"{bed}, {WAYS[way]}: {least.cpu_seconds:.2f} CPU s")
    runs = _runs(usages)
    say(_grid(runs))
    for run in runs:
        if run.task_seconds:
            tasks = ", ".join(f"{task} {seconds:.1f}" for task, seconds in run.task_seconds.items())
            say(f"{run.bed}, {WAYS[run.way]}, wall s of its tasks: {tasks}")
    write_figures(options.json, [asdict(run) for run in runs])
    return _fault(runs, say)


def _least(warehouse: Path, bed: str, way: str, repetitions: int) -> TreeUsage:
    return min((_run(warehouse, bed, way) for _ in range(repetitions)), key=lambda usage: usage.cpu_seconds)


def _run(warehouse: Path, bed: str, way: str) -> TreeUsage:
    place = warehouse / "runs" / uuid.uuid4().hex
    place.mkdir(parents=True)
    if way in _AIRFLOW:
        command = _airflow_command(warehouse, bed, _AIRFLOW[way], place)
    elif way in ("local", "spark"):
        command = _icefloe_command(warehouse, bed, way, place)
    else:
        command = [sys.executable, "-m", "benchmarks.bed_peers", way, str(warehouse), bed]
    usage = run_tree(command, environ={**os.environ, "OMP_NUM_THREADS": str(CORES)}, log=place / "log")
    shutil.rmtree(place)
    return usage


def _icefloe_command(warehouse: Path, bed: str, engine: str, place: Path) -> list[str]:
    """A backfill of the second snapshot, which leaves no checkpoint behind."""
    pipeline, after, up_to = _backfill(warehouse, bed, engine, place)
    return [
        sys.executable, "-m", "icefloe", "run", str(pipeline), "--json",
        "--after-snapshot-id", after, "--up-to-snapshot-id", up_to,
    ]  # fmt: skip


def _airflow_command(warehouse: Path, bed: str, engine: str, place: Path) -> list[str]:
    """The same as a run of the backfill DAG."""
    pipeline, after, up_to = _backfill(warehouse, bed, engine, place)
    return [sys.executable, "-m", "benchmarks.bed_airflow", str(place / "airflow"), str(pipeline), after, up_to]


def _backfill(warehouse: Path, bed: str, engine: str, place: Path) -> tuple[Path, str, str]:
    """A pipeline file, and the ids of the snapshots after which and up to which it is run."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{warehouse}/catalog.db",
        "warehouse": f"file://{warehouse}/warehouse",
    }
    first, last = SqlCatalog(CATALOG, **properties).load_table(f"{NAMESPACE}.{bed}").metadata.snapshots
    document = {
        "version": 1, "name": bed, "catalog": {"name": CATALOG, **properties}, "table": f"{NAMESPACE}.{bed}",
        "identifier_columns": ["flight_id"], "storage": place.as_uri(), "engine": engine,
        "sink": {"type": "files", "path": f"{place.as_uri()}/changes"},
        "spark": {"conf": {"spark.master": f"local[{CORES}]"}},
    }  # fmt: skip
    pipeline = place / f"{bed}.yaml"
    pipeline.write_text(json.dumps(document))
    return pipeline, str(first.snapshot_id), str(last.snapshot_id)


def _runs(usages: Mapping[tuple[str, str], TreeUsage]) -> list[Run]:
    runs = []
    for (bed, way), usage in usages.items():
        raw = _printed(usages[bed, RAW])["cpu_seconds"]
        compute = None if bed in (FIXED, *APPENDED) else usage.cpu_seconds - usages[FIXED, way].cpu_seconds
        if way == RAW:
            compute = raw
        elif way == CONTEXT:
            compute = None
        runs.append(
            Run(
                bed=bed,
                way=way,
                cpu_seconds=usage.cpu_seconds,
                wall_seconds=_printed(usage).get("wall_seconds", usage.wall_seconds),
                memory_bytes=usage.memory_bytes,
                compute_seconds=compute,
                raw_over_compute=raw / compute if compute and compute > 0 else None,
                changes=_changes(way, _printed(usage)),
                task_seconds=_printed(usage).get("tasks", {}),
            )
        )
    return runs


def _printed(usage: TreeUsage) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(usage.output.splitlines()[-1])
    return found


def _changes(way: str, printed: Mapping[str, Any]) -> int | None:
    if way in (RAW, CONTEXT):
        return None
    return int(printed["changes"] if way in (VIEW, *READERS) else sum(printed[change] for change in _CHANGES))


def _grid(runs: Sequence[Run]) -> Grid:
    grid = Grid("bed", "way", "CPU s", "wall s", "memory", "above fixed", "raw / way", "changes", box=None)
    for run in runs:
        grid.add_row(
            run.bed,
            WAYS[run.way],
            f"{run.cpu_seconds:.2f}",
            f"{run.wall_seconds:.2f}",
            format_bytes(run.memory_bytes),
            "-" if run.compute_seconds is None else f"{run.compute_seconds:.2f}",
            "-" if run.raw_over_compute is None else f"{run.raw_over_compute:.2f}",
            "-" if run.changes is None else f"{run.changes:,}",
        )
    return grid


def _fault(runs: Sequence[Run], say: partial[None]) -> int:
    """1 if two ways found different numbers of changes, because their costs do not compare then."""
    found = {bed: {run.changes for run in runs if run.bed == bed and run.changes is not None} for bed in BEDS}
    differing = [bed for bed, numbers in found.items() if len(numbers) > 1]
    for bed in differing:
        say(f"{bed}: the ways disagree on the number of changes: {sorted(found[bed])}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
