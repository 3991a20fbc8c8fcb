"""`icefloe run` as a process that a test watches while it runs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

__all__ = ["IcefloeRun"]

ROOT: Final = Path(__file__).parents[3]
_SECONDS: Final = 240


class IcefloeRun:
    """Starts it with all that it starts in a process group of its own; a context manager that leaves nothing behind.

    Args:
        pipeline: the file.
        folder: of its log.
        environ: further variables.

    Attributes:
        began: time of its start, in seconds since 1970.
    """

    def __init__(self, pipeline: Path, *, folder: Path, environ: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-m", "icefloe", "run", str(pipeline), "--json"]
        here = {"PYTHONPATH": str(ROOT / "plugins"), "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(folder)}
        self._environ = {**os.environ, **here, **environ}
        self._log = folder / f"{pipeline.stem}.log"
        self.began = 0.0

    def __enter__(self) -> Self:
        self.began = time.time()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def when(self, condition: Callable[[], Any]) -> Any:
        """The first true value of a condition; fails where the run ends before."""
        deadline = time.monotonic() + _SECONDS
        while not (found := condition()):
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)
        return found

    def kill(self) -> None:
        """SIGKILL for the run, its spark-submit and its driver."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """SIGSTOP for the run, its spark-submit, its driver and its workers."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT for all of them."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def code(self) -> int:
        """Waits for the end; the exit code."""
        self._process.communicate(timeout=_SECONDS)
        return self._process.returncode

    def document(self) -> dict[str, Any]:
        """Waits for the end, which must be a good one; the JSON object that it prints."""
        out, _ = self._process.communicate(timeout=_SECONDS)
        assert self._process.returncode == 0, self.log
        return json.loads(out.splitlines()[-1])

    def failure(self) -> tuple[int, str]:
        """Waits for the end, which must be a bad one; the exit code and the sentence."""
        self._process.communicate(timeout=_SECONDS)
        assert self._process.returncode != 0, self.log
        return self._process.returncode, self.log.splitlines()[-1].removeprefix("icefloe: ")

    @property
    def log(self) -> str:
        """Its output on standard error."""
        return self._log.read_text(errors="replace")
