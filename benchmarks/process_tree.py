"""CPU, wall time and memory of a program with all processes that it starts.

Spark's JVM does not wait for its Python workers, so the totals of a process's children miss them. A control group
counts every process; where none can be made, the tree is looked at twenty times a second, which misses the last moment
of each process.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psutil

__all__ = ["TreeUsage", "run_tree"]

_GROUPS: Final = Path("/sys/fs/cgroup/cpuacct")
_LOOK_SECONDS: Final = 0.05
_LOOK_AT_MEMORY_SECONDS: Final = 0.25
"""A look goes through all processes of the machine, so it costs something itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUsage:
    """Resources of a program and its descendants.

    Attributes:
        memory_bytes: the highest sum of their private memory; pages that several processes share are left out.
        output: standard output.
    """

    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    output: str


class _Cpu(Protocol):
    def seconds(self) -> float: ...


def run_tree(command: Sequence[str], *, environ: Mapping[str, str], log: Path) -> TreeUsage:
    """Run a program to its end.

    Args:
        command: program and arguments.
        environ: its environment.
        log: file for its standard error; its standard output goes to a file with the ending ``.out`` next to it.

    Raises:
        RuntimeError: it failed, with the end of its standard error.
    """
    printed = log.with_suffix(".out")
    with _group() as group, log.open("w") as errors, printed.open("w") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            preexec_fn=None if group is None else group.join,
        )  # fmt: skip
        tree = _Tree(psutil.Process(process.pid))
        try:
            while process.poll() is None:
                tree.look()
                time.sleep(_LOOK_SECONDS if group is None else _LOOK_AT_MEMORY_SECONDS)
        except BaseException:
            process.send_signal(signal.SIGTERM)
            raise
        wall_seconds = time.perf_counter() - started
        cpu: _Cpu = group or tree
        usage = TreeUsage(
            cpu_seconds=cpu.seconds(),
            wall_seconds=wall_seconds,
            memory_bytes=tree.memory_bytes,
            output=printed.read_text(),
        )
    if process.returncode:
        raise RuntimeError(f"{command[:4]} ended with {process.returncode}: {log.read_text()[-2_000:]}")
    return usage


class _Tree:
    """A process and its descendants, as often as somebody looked."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root
        self._cpu: dict[tuple[int, float], float] = {}
        self.memory_bytes = 0

    def look(self) -> None:
        memory_bytes = 0
        with suppress(psutil.Error):
            for each in [self._root, *self._root.children(recursive=True)]:
                with suppress(psutil.Error):
                    times, memory = each.cpu_times(), each.memory_info()
                    self._cpu[each.pid, each.create_time()] = times.user + times.system
                    memory_bytes += memory.rss - getattr(memory, "shared", 0)
        self.memory_bytes = max(self.memory_bytes, memory_bytes)

    def seconds(self) -> float:
        return sum(self._cpu.values())


class _Group:
    """A control group of version 1, which counts the CPU of all its processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def join(self) -> None:
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def seconds(self) -> float:
        return int((self._folder / "cpuacct.usage").read_text()) / 1e9


@contextmanager
def _group() -> Iterator[_Group | None]:
    folder = _GROUPS / f"icefloe-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    try:
        yield _Group(folder)
    finally:
        for _ in range(100):  # workers that nobody waits for may still be ending
            with suppress(OSError):
                folder.rmdir()
                break
            time.sleep(_LOOK_SECONDS)
