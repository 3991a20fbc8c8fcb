"""CPU seconds and peak memory of coalesce, and of the start of one reduce range, over many map outputs.

``PYTHONPATH=plugins:tests:. python -m benchmarks.shuffle_scale``, with ``--maps 20000 --partitions 4096`` for other
sizes, again for several, ``--empty 0.9`` for the share of empty blocks, ``--json FILE`` for the numbers. The map
outputs are made up: only their small files are read, and making them up is not counted. One core is used.
"""

import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from benchmarks.synthetic_outputs import SyntheticOutputs
from icefloe.batch.context.batch_folder import MapInputs
from icefloe.batch.phase_record import PhaseTally
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents, coalesce_map_outputs
from icefloe.storage.location import open_store
from support.pipelines.workshop import Workshop

_MIB: Final = 1 << 20
_BYTES_OF_A_MAP_OUTPUT: Final = 256 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFigures:
    """The figures of one size.

    Attributes:
        coalesce_seconds: CPU, without what making up the map outputs takes.
        coalesce_requests: requests of coalesce to the store.
        extents_bytes: bytes of all extents in the store.
        range_seconds: CPU of one range until it knows its first fetch.
        base_mib: memory of the process before, with all libraries.
        peak_mib: most memory of the process.
    """

    maps: int
    partitions: int
    empty: float
    ranges: int
    coalesce_seconds: float
    coalesce_requests: int
    extents_bytes: int
    range_seconds: float
    base_mib: int
    peak_mib: int


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("CPU and memory of coalesce and of the start of a range")
    parser.add_argument("--maps", type=int, action="append", help="map tasks; again for more; default: 500 and 2000")
    parser.add_argument("--partitions", type=int, action="append", help="reduce partitions; again for more")
    parser.add_argument("--empty", type=float, action="append", help="share of empty blocks; again for more")
    options = parser.parse_args(arguments)
    sizes = list(product(options.maps or [500, 2000], options.partitions or [4096], options.empty or [0.0, 0.9]))
    # A process for each size, because the peak of a process never falls.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        figures = [processes.submit(measured, *size).result() for size in sizes]
    say = partial(Console(width=120).print, highlight=False)
    say(as_grid(figures))
    write_figures(options.json, [asdict(each) for each in figures])
    return 0


def measured(maps: int, partitions: int, empty: float) -> ScaleFigures:
    """The figures of coalesce over so many map outputs, and of the start of its middle range."""
    # One after the other, so that what making up the map outputs takes is the CPU of this thread.
    one_by_one = patch("icefloe.shuffle.committed_output.map_parallel", lambda call, items: list(map(call, items)))
    with TemporaryDirectory() as place, one_by_one:
        workshop = Workshop.create(Path(place))
        workshop.append(range(4))
        workshop.deliver()
        workshop.update([1], value=2.0)
        folder = workshop.set(shuffle={"partitions": partitions}).open().batch_folder
        outputs = SyntheticOutputs(
            open_store(f"file://{place}/outputs"),
            schema=folder.shape.shuffled_schema,
            num_partitions=partitions,
            empty=empty,
        )
        sizes = (_BYTES_OF_A_MAP_OUTPUT,) * maps
        plan = replace(folder.plan, map_task_bytes=sizes, map_task_digests=("0" * 32,) * maps)
        folder = replace(folder, plan=plan, store=outputs)
        base_mib = peak_mib()
        started = time.process_time()
        coalesced = coalesce_map_outputs(MapInputs(folder=folder, io=workshop.table.io), PhaseTally.of("coalesce"))
        coalesce_seconds = time.process_time() - started - outputs.own_seconds
        requests = outputs.requests
        started = time.process_time()
        BatchExtents(folder, coalesced.epoch).of(len(coalesced.plan.ranges) // 2)
        return ScaleFigures(
            maps=maps,
            partitions=partitions,
            empty=empty,
            ranges=len(coalesced.plan.ranges),
            coalesce_seconds=round(coalesce_seconds, 2),
            coalesce_requests=requests,
            extents_bytes=sum(each.size_bytes for each in outputs.list("extents")),
            range_seconds=round(time.process_time() - started, 4),
            base_mib=base_mib,
            peak_mib=peak_mib(),
        )


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def as_grid(figures: Sequence[ScaleFigures]) -> Grid:
    grid = Grid("maps", "partitions", "empty", "ranges", "coalesce CPU s", "requests", "extents", "range CPU s", "peak")
    for each in figures:
        grid.add_row(
            f"{each.maps:,}",
            f"{each.partitions:,}",
            f"{each.empty:.0%}",
            f"{each.ranges:,}",
            f"{each.coalesce_seconds:.2f}",
            f"{each.coalesce_requests:,}",
            f"{each.extents_bytes / _MIB:,.0f} MiB",
            f"{each.range_seconds:.4f}",
            f"{each.peak_mib:,} MiB",
        )
    return grid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
