"""A run in a process of its own, which stops itself (SIGSTOP) at its n-th operation on a store.

    python -m faults.stopped_process PLACE PIPELINE

A place of 0 is none. Whoever started it sends SIGCONT. The exit code is that of the command line.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.place import Place, deliver
from icefloe.errors import IcefloeError
from support.fakes.gates import Gate, gated_stores, stop_process
from support.pipelines.workspace import ROOT

__all__ = ["stopped_process"]


@contextmanager
def stopped_process(place: Place, number: int) -> Iterator[subprocess.Popen[str]]:
    """The late run of a place, stopped before its n-th operation; it is killed if the test does not end it."""
    arguments = [str(number), str(place.pipeline)]
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "tests")])
    process = subprocess.Popen(
        [sys.executable, "-m", "faults.stopped_process", *arguments],
        env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"the run ended before its operation {number}"
        yield process
    finally:
        process.kill()
        process.communicate()


def main() -> int:
    place = int(sys.argv[1]) or sys.maxsize
    with gated_stores(everybody=Gate(place, _stop_once())):
        try:
            deliver(Path(sys.argv[2]))
        except IcefloeError as error:
            sys.stderr.write(f"{error}\n")
            return error.exit_code
    return 0


def _stop_once():
    """Stops the process at the first call. Gates call it again for each later operation."""
    stops = iter([stop_process])
    return lambda: next(stops, lambda: None)()


if __name__ == "__main__":
    sys.exit(main())
