"""All tests in two processes side by side: those that start Spark, a server or Airflow's daemons, and the others.

Each waits most of the time for other processes, so together they take little longer than the longer one.
"""
# ruff: noqa: INP001, S603, T201 (a script of the Makefile, not a package, and it runs pytest)

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["main"]

SERVING: Final = "spark or servers or daemons"
"""Not side by side among themselves: Airflow's daemons serve their logs on ports that are always the same."""
_SECONDS_BETWEEN_LOOKS: Final = 0.5


def main(arguments: Sequence[str]) -> int:
    """Run pytest with ``arguments`` once for each group; the worse of both exit codes."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        with output.open("wb") as file:
            serving = subprocess.Popen(_pytest(SERVING, arguments), stdout=file, stderr=subprocess.STDOUT)
        try:
            code = subprocess.run(_pytest(f"not ({SERVING})", arguments), check=False).returncode
            print("\nTests that start Spark, a server or Airflow's daemons:", flush=True)
            _follow(output, serving)
        finally:
            serving.terminate()
            serving.wait()
    return max(code, serving.returncode)


def _pytest(group: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-m", group, *arguments]


def _follow(output: Path, process: subprocess.Popen[bytes]) -> None:
    """Show what a process prints until it ends."""
    with output.open("rb") as file:
        while True:
            has_ended = process.poll() is not None
            sys.stdout.buffer.write(file.read())
            sys.stdout.flush()
            if has_ended:
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
