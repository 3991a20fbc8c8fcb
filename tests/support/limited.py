"""Commands in a process that the system gives only so much memory, and one core."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

__all__ = ["ABOVE_TASK_BYTES", "icefloe_within", "run_within"]

ROOT: Final = Path(__file__).parents[2]
ABOVE_TASK_BYTES: Final = 512 << 20
"""What a process may take in addition to `shuffle.memory_bytes`: the interpreter, its libraries, and what they hold."""


def icefloe_within(memory_bytes: int, *arguments: object) -> Any:
    """The JSON that a command prints, which must end well; see `run_within`."""
    done = run_within(memory_bytes, *arguments)
    assert done.returncode == 0, f"within {(memory_bytes + ABOVE_TASK_BYTES) >> 20} MiB: {done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def run_within(memory_bytes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process whose private memory has a limit.

    Args:
        memory_bytes: of a task; the process may have `ABOVE_TASK_BYTES` more.
        arguments: of the command line.
    """
    limit = memory_bytes + ABOVE_TASK_BYTES

    def enter() -> None:
        # One core runs one task at a time; each further one may take as much again.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "icefloe", *map(str, arguments), "--json"], preexec_fn=enter,
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins")}, capture_output=True, text=True, timeout=580,
    )  # fmt: skip
