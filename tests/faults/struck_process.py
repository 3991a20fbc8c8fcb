"""A run in a process of its own, to which the system gives no more memory from one operation on.

    python -m faults.struck_process PIPELINE WHERE FREE_BYTES

The operation is the first read or write of a document whose URL has ``WHERE`` in it. A sink of the type ``documents``
is there: a folder, which outlives the process.
"""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

from icefloe.cli.command_line import main as icefloe
from support.fakes.gates import Gate, gated_stores
from support.pipelines.workspace import ROOT, Outcome
from support.sinks.document_folder import registered

__all__ = ["starved_run"]


def starved_run(pipeline: Path, *, where: str, free_bytes: int) -> Outcome:
    """The outcome of a run that gets only so much more memory from an operation on."""
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-m", "faults.struck_process", str(pipeline), where, str(free_bytes)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)


def main() -> int:
    pipeline, where, free_bytes = sys.argv[1:]

    def starve() -> None:
        limit, most = resource.getrlimit(resource.RLIMIT_DATA)
        if limit == resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_DATA, (_used_bytes() + int(free_bytes), most))

    with gated_stores(everybody=Gate(1, starve, of=where)), registered():
        return icefloe(["run", pipeline, "--json"])


def _used_bytes() -> int:
    """The memory of this process that counts against the limit."""
    [found] = re.findall(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found) << 10


if __name__ == "__main__":
    sys.exit(main())
