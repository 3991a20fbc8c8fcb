"""CPU seconds of a map task over a rewritten file, by each fast way, next to the raw decode of the same two files.

``PYTHONPATH=tests python -m benchmarks.kernel``, with ``--rows 250000`` for smaller files, ``--bed delete`` for some of
the beds, ``--json FILE`` for the numbers. A ratio is the raw decode's CPU divided by the task's: above 1 the task is
cheaper than reading both files once. Ratios of one run compare, seconds of two runs do not. One core is used.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from typing import Final

from pyiceberg.table import Table
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from benchmarks.kernel_beds import BEDS, kernel_beds
from benchmarks.map_task import MapTaskResult, map_task_inputs, measure, run_map_task
from benchmarks.run import FOLDER, read_raw, use_one_core
from benchmarks.turns import cpu_of, in_turns
from icefloe.batch.map.rewritten_files import FastWay

PLACE: Final = FOLDER.parent / "kernel"
WAYS: Final = {"plain": (), **{str(way): (way,) for way in FastWay}, "all": tuple(FastWay)}
_REPETITIONS: Final = 5
_RAW: Final = "raw decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """CPU seconds of one bed; the least of several repetitions."""

    bed: str
    way: str
    rows: int
    changed_rows: int
    raw_decode_seconds: float
    map_task_seconds: float

    @property
    def ratio(self) -> float:
        return self.raw_decode_seconds / self.map_task_seconds


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("CPU of map tasks next to the raw decode of their files")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a data file")
    parser.add_argument("--bed", action="append", choices=list(BEDS), help="a bed; again for more; default: all")
    options = parser.parse_args(arguments)
    say = partial(Console().print, highlight=False, soft_wrap=True)
    say(f"Making the tables, the first time only: Spark rewrites {len(BEDS)} files of {options.rows:,} rows ...")
    tables = kernel_beds(PLACE, options.rows)
    use_one_core()
    attempts = count()
    figures = [each for bed in options.bed or BEDS for each in measured(bed, tables[bed], attempts)]
    say(as_grid(figures))
    write_figures(options.json, [{**asdict(each), "ratio": round(each.ratio, 3)} for each in figures])
    return 0


def measured(bed: str, table: Table, attempts: Iterator[int]) -> Iterator[Figures]:
    """The figures of each way. All take turns."""
    results: dict[str, MapTaskResult] = {}

    def map_task(way: str) -> float:
        inputs = map_task_inputs(table, next(attempts))
        seconds, folder = cpu_of(partial(run_map_task, inputs, WAYS[way]))
        results[way] = measure(folder)
        return seconds

    def raw_decode() -> float:
        seconds, _ = cpu_of(partial(read_raw, table))
        return seconds

    ways: dict[str, Callable[[], float]] = {_RAW: raw_decode, **{way: partial(map_task, way) for way in WAYS}}
    least = {way: min(seconds) for way, seconds in in_turns(ways, turns=_REPETITIONS).items()}
    for way, result in results.items():
        yield Figures(
            bed=bed,
            way=way,
            rows=result.rows_read,
            changed_rows=result.changed_rows,
            raw_decode_seconds=least[_RAW],
            map_task_seconds=least[way],
        )


def as_grid(figures: Sequence[Figures]) -> Grid:
    grid = Grid("bed", "way", "rows", "changed", "raw CPU s", "task CPU s", "raw / task")
    for each in figures:
        grid.add_row(
            each.bed,
            each.way,
            f"{each.rows:,}",
            f"{each.changed_rows:,}",
            f"{each.raw_decode_seconds:.3f}",
            f"{each.map_task_seconds:.3f}",
            f"{each.ratio:.2f}",
        )
    return grid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
