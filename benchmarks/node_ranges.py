"""A whole reduce task whose map outputs are at a node, next to one whose map outputs are on this machine's own disk.

``PYTHONPATH=plugins:tests:. python -m benchmarks.node_ranges``, with ``--rows 600000`` for the changed rows, ``--turns
5``, ``--json FILE`` for the numbers. Both tasks fetch, decode, match and deliver the same rows, in turns. The node is
a process of its own, with TLS both ways. *Cold* files are not in the memory of the machine when a turn begins.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.figures import parser_of, write_figures
from benchmarks.hot_ranges import shuffled
from icefloe.batch.reduce.read_range import read_range
from icefloe.memory_pool import share_heap
from support.nodes.machines import NodeMachine, certificates, member_file, on_machine
from support.pipelines.workshop import OpenBatch
from support.servers.private_authority import PrivateAuthority

_BED: Final = "many_identities"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    """The medians of one way.

    Attributes:
        shuffled_mib: compressed bytes that the task fetches.
        cpu_seconds: of the task, and of the node.
        of_own_disk: wall time by that of the own disk, the median over turns.
        cpu_of_own_disk: the same of the CPU.
    """

    files: str
    way: str
    shuffled_mib: int
    seconds: float
    cpu_seconds: float
    of_own_disk: float
    cpu_of_own_disk: float


def main(arguments: Sequence[str]) -> int:
    parser = parser_of("a reduce task by the place of its map outputs")
    parser.add_argument("--rows", type=int, default=600_000, help="changed rows; half of them before a commit")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args(arguments)
    share_heap(os.environ)
    figures: list[TaskFigures] = []
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        authority = PrivateAuthority.create(folder / "authority")
        machine = NodeMachine.create(folder / "machine", authority)
        machine.start()
        stack.callback(machine.server.stop)
        reader = member_file(folder / "reader.yaml", **certificates(authority))
        with on_machine(machine.config):
            batches = {
                "own disk": shuffled(folder / "own", _BED, options.rows),
                "node": shuffled(folder / "node", _BED, options.rows, transfer="nodes"),
            }
        stack.enter_context(on_machine(reader))
        node = psutil.Process(machine.server.pid)
        for is_cold in (False, True):
            found: dict[str, list[tuple[float, float, int]]] = {way: [] for way in batches}
            for _ in range(options.turns):
                for way, batch in batches.items():
                    data = [*batch.folder.glob("*.data"), *machine.outputs()]
                    found[way].append(measured(batch, node, data if is_cold else ()))
            figures += medians("cold" if is_cold else "in memory", found)
    Console(width=110).print(as_grid(figures), highlight=False)
    write_figures(options.json, [asdict(each) for each in figures])
    return 0


def measured(batch: OpenBatch, node: psutil.Process, cold: Sequence[Path]) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and shuffled bytes of the one reduce task of a batch."""
    running = batch.running
    running.folder.store.delete(["results/00000.json"])
    for path in cold:
        forget(path)
    before, began = processor_seconds(node), time.perf_counter()
    result = read_range(running.folder, running.folder_of_changes, 0, requests=running.requests, epoch=0)
    return time.perf_counter() - began, processor_seconds(node) - before, result.fetched_bytes


def forget(path: Path) -> None:
    """Lets the machine forget the content of a file that it keeps in memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def processor_seconds(node: psutil.Process) -> float:
    times = [psutil.Process().cpu_times(), node.cpu_times()]
    return float(sum(each.user + each.system for each in times))


def medians(files: str, found: dict[str, list[tuple[float, float, int]]]) -> list[TaskFigures]:
    own = found["own disk"]
    return [
        TaskFigures(
            files=files,
            way=way,
            shuffled_mib=turns[0][2] >> 20,
            seconds=round(median(seconds for seconds, _, _ in turns), 2),
            cpu_seconds=round(median(cpu for _, cpu, _ in turns), 2),
            of_own_disk=round(median(turn[0] / other[0] for turn, other in zip(turns, own, strict=True)), 2),
            cpu_of_own_disk=round(median(turn[1] / other[1] for turn, other in zip(turns, own, strict=True)), 2),
        )
        for way, turns in found.items()
    ]


def as_grid(figures: Sequence[TaskFigures]) -> Grid:
    grid = Grid("files", "map outputs", "MiB", "s", "CPU s", "x own disk", "x its CPU", box=None)
    for each in figures:
        grid.add_row(*map(str, asdict(each).values()))
    return grid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
