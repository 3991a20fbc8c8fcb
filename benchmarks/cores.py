"""Seconds of a batch on 1 and 2 cores, next to a model, and what the model says of up to 64 cores.

``PYTHONPATH=plugins:tests:. python -m benchmarks.cores``, with ``--days 16 --rows 250000`` for other sizes,
``--cores 4`` for a further measurement, ``--json FILE`` for the numbers, ``--picture docs/images/cores.svg`` to draw
them. One file a day is rewritten, so there is a map task for each. The engine is local, and each run is a program of
its own, which may use so many cores. The model knows nothing but the CPU of two runs on one core: the start, which is a
run over 1,000 rows, and what the batch takes above it. A busy machine takes longer than the model says.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table as Grid

from benchmarks.cores_picture import cores_picture
from benchmarks.figures import parser_of, write_figures
from benchmarks.process_tree import TreeUsage, run_tree
from benchmarks.rewritten_days import RewrittenDays

MOST_CORES: Final = 64
_FIXED_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresFigures:
    """A batch on some cores.

    Attributes:
        tasks: map tasks of the batch; further cores are idle.
        model_seconds: seconds by the model.
        measured_seconds: wall time; None if it was not measured.
        cpu_seconds: CPU of the run; None if it was not measured.
    """

    cores: int
    tasks: int
    model_seconds: float
    measured_seconds: float | None
    cpu_seconds: float | None


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("a batch on 1 and 2 cores, and a model of more")
    parser.add_argument("--days", type=int, default=16, help="data files, and so map tasks")
    parser.add_argument("--rows", type=int, default=250_000, help="rows of a data file")
    parser.add_argument("--cores", type=int, action="append", help="a further number of cores to measure")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--picture", type=Path, help="file for a picture, an SVG")
    options = parser.parse_args(arguments)
    say = partial(Console(width=100).print, highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as name:
        fixed = RewrittenDays.make(Path(name, "fixed"), days=1, rows=_FIXED_ROWS)
        batch = RewrittenDays.make(Path(name, "batch"), days=options.days, rows=options.rows)
        least = partial(_least, repetitions=options.repetitions)
        start = least(fixed, 1).cpu_seconds
        measured = {cores: least(batch, cores) for cores in sorted({1, 2, *(options.cores or ())})}
    compute = measured[1].cpu_seconds - start
    figures = [
        figures_of(cores, tasks=options.days, start=start, compute=compute, measured=measured.get(cores))
        for cores in sorted({*measured, *(1 << power for power in range(MOST_CORES.bit_length()))})
    ]
    say(as_grid(figures))
    say(f"start {start:.2f} CPU s, compute {compute:.2f} CPU s; load of the machine {os.getloadavg()[0]:.1f}")
    write_figures(options.json, [asdict(each) for each in figures])
    if options.picture is not None:
        options.picture.write_text(cores_picture(figures))
    return 0


def figures_of(cores: int, *, tasks: int, start: float, compute: float, measured: TreeUsage | None) -> CoresFigures:
    """The figures of a number of cores.

    >>> figures_of(64, tasks=16, start=2.0, compute=32.0, measured=None).model_seconds
    4.0
    """
    return CoresFigures(
        cores=cores,
        tasks=tasks,
        model_seconds=round(start + compute / min(cores, tasks), 2),
        measured_seconds=None if measured is None else round(measured.wall_seconds, 2),
        cpu_seconds=None if measured is None else round(measured.cpu_seconds, 2),
    )


def _least(table: RewrittenDays, cores: int, *, repetitions: int) -> TreeUsage:
    """Of a few runs the shortest."""
    usages = [_run(table, cores, number) for number in range(repetitions)]
    return min(usages, key=lambda usage: usage.wall_seconds)


def _run(table: RewrittenDays, cores: int, number: int) -> TreeUsage:
    place = table.folder / f"run-{cores}-{number}"
    place.mkdir()
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    if len(allowed) < cores:
        raise SystemExit(f"this machine lets its programs use {len(allowed)} cores, not {cores}")
    command = ["taskset", "--cpu-list", ",".join(map(str, allowed)), *table.command(place)]
    # Otherwise Arrow would start a thread for each core of the machine.
    return run_tree(command, environ={**os.environ, "OMP_NUM_THREADS": str(cores)}, log=place / "log")


def as_grid(figures: Sequence[CoresFigures]) -> Grid:
    grid = Grid("cores", "map tasks", "model s", "measured s", "model / measured", "CPU s", box=None)
    for each in figures:
        seconds = each.measured_seconds
        grid.add_row(
            f"{each.cores}",
            f"{each.tasks}",
            f"{each.model_seconds:.2f}",
            "-" if seconds is None else f"{seconds:.2f}",
            "-" if seconds is None else f"{each.model_seconds / seconds:.2f}",
            "-" if each.cpu_seconds is None else f"{each.cpu_seconds:.2f}",
        )
    return grid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
