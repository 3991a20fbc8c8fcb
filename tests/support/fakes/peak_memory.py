"""The memory of this process, and code in a process of its own, whose memory is its own."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["anonymous_kib", "forget_peak", "peak_kib", "run_apart"]

_TESTS = str(Path(__file__).parents[2])


def peak_kib() -> int:
    """The most that was resident since the program began, KiB.

    Not ``ru_maxrss``: Linux hands that on to a program that a process starts, so a child of a large test process would
    seem as large as that.
    """
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def forget_peak() -> None:
    """Counts `peak_kib` from now on, with all that the C library's heap kept given back to the system."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def anonymous_kib() -> int:
    """Memory that is in no file, so that the system cannot take it back, KiB."""
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])


def run_apart(code: str, argument: object) -> list[Any]:
    """The lines of JSON that code prints; it may import from tests, and `given` is the argument."""
    before = f"import json, sys; sys.path[:0] = {[_TESTS, *sys.path]!r}; given = json.loads(sys.argv[1])\n"
    command = [sys.executable, "-c", before + code, json.dumps(argument)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-500:]}"
    return [json.loads(line) for line in ended.stdout.splitlines()]
