"""CPU seconds of map tasks that find no fast way, or only part of one, next to the same tasks without fast ways.

``PYTHONPATH=tests python -m benchmarks.adverse_inputs``, with ``--rows 1000000`` for larger files, ``--rows-of nulls``
for some kinds of rows, ``--change deleted`` for some changes, ``--json FILE`` for the numbers. A ratio is the CPU with
all ways divided by the CPU with none: 1.3 is the most that trying may cost. One core is used.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyiceberg.table import Table
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.adverse_tables import CHANGES, ROWS, adverse_table
from benchmarks.figures import parser_of, write_figures
from benchmarks.map_task import map_task_inputs, run_map_task
from benchmarks.run import use_one_core
from benchmarks.turns import cpu_of, in_turns
from icefloe.batch.map.rewritten_files import FastWay

_REPETITIONS: Final = 4
_WAYS: Final = {"none": (), "all": tuple(FastWay)}
_ATTEMPTS: Final = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """CPU seconds of a map task, the least of several repetitions."""

    rows: str
    change: str
    none_seconds: float
    all_seconds: float

    @property
    def ratio(self) -> float:
        """Above 1, trying fast ways cost more than it saved."""
        return self.all_seconds / self.none_seconds


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("CPU of map tasks with all fast ways, next to none")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a table")
    parser.add_argument("--rows-of", action="append", choices=list(ROWS), help="kind of rows; again for more")
    parser.add_argument("--change", action="append", choices=list(CHANGES), help="a change; again for more")
    options = parser.parse_args(arguments)
    use_one_core()
    figures = [
        measured(kind, change, options.rows)
        for kind, change in product(options.rows_of or ROWS, options.change or CHANGES)
    ]
    Console().print(as_grid(figures), highlight=False)
    write_figures(options.json, [{**asdict(each), "ratio": round(each.ratio, 3)} for each in figures])
    return 0


def measured(kind: str, change: str, rows: int) -> Figures:
    """The figures of one kind of rows with one change. Both choices of ways take turns."""
    with TemporaryDirectory() as folder:
        table = adverse_table(Path(folder) / "table", kind, change, rows)
        run(table, ())
        runs = {name: partial(run, table, ways) for name, ways in _WAYS.items()}
        least = {name: min(seconds) for name, seconds in in_turns(runs, turns=_REPETITIONS).items()}
    return Figures(rows=kind, change=change, none_seconds=least["none"], all_seconds=least["all"])


def run(table: Table, ways: tuple[FastWay, ...]) -> float:
    """CPU seconds of the one map task over the table's change."""
    inputs = map_task_inputs(table, next(_ATTEMPTS))
    seconds, _ = cpu_of(partial(run_map_task, inputs, ways))
    return seconds


def as_grid(figures: Sequence[Figures]) -> Grid:
    grid = Grid("rows", "change", "no way, CPU s", "all ways, CPU s", "all / none")
    for each in sorted(figures, key=lambda each: -each.ratio):
        grid.add_row(each.rows, each.change, f"{each.none_seconds:.3f}", f"{each.all_seconds:.3f}", f"{each.ratio:.2f}")
    return grid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
