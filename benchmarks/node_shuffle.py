"""The time to fetch a range: from a node, from this machine's own disk, and from an object store.

``python -m benchmarks.node_shuffle [--delay-ms 100] [--shape "41 x 2 KiB"]`` starts a node with TLS both ways and an S3
store as the tests do, and fetches the same pieces of the same files by each way in turn, as a reduce task does: one
request for each node, and for each map output of a store, eight at once. *Delayed* is the store with a pause before
each request, as stores that are not on this machine have it: S3 sends the first byte of a small object after 100 to 200
ms by its own guide. Processor seconds are those of this process and of the server. The last line is one JSON object.
"""

import json
import shutil
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table as Printed

from icefloe.node.node_client import NodeClients
from icefloe.node.node_config import load_node_config
from icefloe.node.node_folder import NodeFolder, Piece
from icefloe.storage.location import open_store
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import Store
from support.nodes.machines import NodeMachine
from support.servers.private_authority import PrivateAuthority
from support.servers.versitygw import Versitygw

BATCH: Final = "5f0c/7"
FILE_BYTES: Final = 64 << 10


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The pieces of a fetch: one of each file."""

    name: str
    files: int
    piece_bytes: int
    turns: int

    @property
    def size_bytes(self) -> int:
        return self.files * self.piece_bytes


SHAPES: Final = (
    Shape(name="41 x 2 KiB", files=41, piece_bytes=2 << 10, turns=300),
    Shape(name="41 x 64 KiB", files=41, piece_bytes=64 << 10, turns=30),
    Shape(name="41 x 256 KiB", files=41, piece_bytes=256 << 10, turns=30),
    Shape(name="41 x 1.5 MiB", files=41, piece_bytes=3 << 19, turns=10),
    Shape(name="256 x 256 KiB", files=256, piece_bytes=256 << 10, turns=10),
    Shape(name="16 x 8 MiB", files=16, piece_bytes=8 << 20, turns=10),
)
ROUNDS: Final = 5
"""Each way has its turns in so many parts, so that a noisy moment strikes all ways alike, and few strike each other."""


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.node_shuffle")
    parser.add_argument("--delay-ms", type=float, default=100.0, help="pause before each request to the store")
    names = [shape.name for shape in SHAPES]
    parser.add_argument("--shape", action="append", choices=names, help="a shape; again for more; default: all")
    options = parser.parse_args()
    delay, shapes = options.delay_ms / 1000, [each for each in SHAPES if each.name in (options.shape or names)]
    folder = Path(tempfile.mkdtemp(prefix="icefloe-benchmark-"))
    machine = NodeMachine.create(folder / "machine", PrivateAuthority.create(folder / "authority"))
    measured: list[dict[str, Any]] = []
    try:
        machine.start()
        with Versitygw(folder=folder / "versitygw") as server:
            server.make_bucket("lake")
            store = open_store("s3://lake/shuffle", options=server.options)
            for shape in shapes:
                pids = {"node": machine.server.pid, "store": server.process.pid, "delayed": server.process.pid}
                measured += measure(shape, ways(shape, machine, store, delay), pids)
    finally:
        machine.server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    show(measured)
    return 0


def ways(shape: Shape, machine: NodeMachine, store: Store, delay: float) -> dict[str, Callable[[], Sequence[Any]]]:
    """The ways to fetch the pieces; the files are written first."""
    config = load_node_config(machine.config)
    clients, own = NodeClients(config, patience=60), NodeFolder(machine.folder)
    size_bytes = shape.piece_bytes + FILE_BYTES
    start, stop = FILE_BYTES // 2, FILE_BYTES // 2 + shape.piece_bytes
    names = [f"{number}.0.{shape.files}-{shape.piece_bytes}.data" for number in range(shape.files)]
    for name in names:
        data = np.random.default_rng(7).bytes(size_bytes)
        own.put(f"{BATCH}/{name}", data)
        store.put(name, data)
    pieces = [Piece(f"{BATCH}/{name}", size_bytes, start, stop) for name in names]

    def from_store(name: str) -> bytes:
        [data] = store.get_ranges(name, [(start, stop)])
        return data

    def delayed(name: str) -> bytes:
        time.sleep(delay)
        return from_store(name)

    return {
        "own disk": lambda: [own.read_whole(piece) for piece in pieces],
        "node": lambda: clients.read(str(config.address), pieces),
        "store": lambda: map_parallel(from_store, names),
        "delayed": lambda: map_parallel(delayed, names),
    }


def measure(
    shape: Shape, fetches: dict[str, Callable[[], Sequence[Any]]], pids: dict[str, int]
) -> list[dict[str, Any]]:
    """Fetches by each way in turn."""
    seconds: dict[str, list[float]] = {way: [] for way in fetches}
    processor: dict[str, float] = dict.fromkeys(fetches, 0.0)
    expected = [bytes(each) for each in fetches["own disk"]()]
    for way, fetch in fetches.items():
        if [bytes(each) for each in fetch()] != expected:
            raise AssertionError(f"{way} fetched other bytes")
    for _ in range(ROUNDS):
        for way, fetch in fetches.items():
            before = processor_seconds(pids.get(way))
            for _ in range(shape.turns // ROUNDS):
                began = time.perf_counter()
                fetch()
                seconds[way].append(time.perf_counter() - began)
            processor[way] += processor_seconds(pids.get(way)) - before
    return [
        {
            "shape": shape.name,
            "way": way,
            "p50_ms": round(1e3 * median(found), 3),
            "p99_ms": round(1e3 * quantiles(found, n=100, method="inclusive")[98], 3),
            "mb_per_second": round(shape.size_bytes / median(found) / 1e6, 1),
            "processor_ms": round(1e3 * processor[way] / shape.turns, 2),
            "of_own_disk": round(median(found) / median(seconds["own disk"]), 2),
            "of_delayed_store": round(median(found) / median(seconds["delayed"]), 3),
        }
        for way, found in seconds.items()
    ]


def processor_seconds(pid: int | None) -> float:
    """Processor seconds of this process and of a server."""
    times = [psutil.Process().cpu_times(), *([] if pid is None else [psutil.Process(pid).cpu_times()])]
    return float(sum(each.user + each.system for each in times))


def show(measured: Sequence[dict[str, Any]]) -> None:
    """A table, and the same as JSON."""
    printed = Printed("pieces", "from", "p50 ms", "p99 ms", "MB/s", "processor ms", "x own disk", "x delayed", box=None)
    for each in measured:
        printed.add_row(*map(str, each.values()))
    Console(highlight=False, width=110).print(printed)
    sys.stdout.write(json.dumps({"fetches": list(measured)}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
