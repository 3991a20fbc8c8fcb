"""Tasks of real daemons that halt right after they wrote a document, until a test lets them go on or kills them.

The test asks for a place by a pattern, and the first task that comes there halts. The DAG file of the daemons arms each
process that it is read in:

    halt_tasks(Path("FOLDER"))
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import psutil

from icefloe.storage.object_store import ObjectStore
from icefloe.storage.store import join_url
from support.servers.daemons import wait_until

__all__ = ["Halts", "halt_tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halts:
    """The places at which tasks halt, one at a time, seen from the test.

    Attributes:
        folder: through which test and tasks talk.
    """

    folder: Path

    def at(self, pattern: str) -> None:
        """Halts the first task that writes a document whose URL matches a shell pattern."""
        unfinished = self.folder / "asked.new"
        unfinished.write_text(pattern)
        unfinished.rename(self.folder / "asked")

    def wait(self, *, seconds: float) -> psutil.Process:
        """The task that halts, as soon as one does; it may be killed meanwhile."""
        pid = wait_until(lambda: next(self._halted(), None), what="a task that halts", seconds=seconds)
        return psutil.Process(pid)

    def go_on(self) -> None:
        """Lets the task that halts go on, if it still lives."""
        for path in self.folder.glob("halted.*"):
            path.unlink()

    def _halted(self) -> Iterator[int]:
        pids = (int(path.name.removeprefix("halted.")) for path in self.folder.glob("halted.*"))
        return (pid for pid in pids if psutil.pid_exists(pid))


def halt_tasks(folder: Path) -> None:
    """Makes this process halt where a test asks for it."""
    asked = folder / "asked"

    def watch(write: Callable[..., Any]) -> Callable[..., Any]:
        def watched(store: ObjectStore, key: str, data: Any) -> Any:
            answer = write(store, key, data)
            try:
                if fnmatchcase(join_url(store.url, key), asked.read_text()):
                    halted = folder / f"halted.{os.getpid()}"
                    asked.rename(halted)  # one process takes it
                    while halted.exists():
                        time.sleep(0.02)
            except FileNotFoundError:
                pass  # nothing is asked for, or another process was first
            return answer

        return watched

    ObjectStore.create = watch(ObjectStore.create)  # type: ignore[method-assign]
    ObjectStore.put = watch(ObjectStore.put)  # type: ignore[method-assign]
