"""``icefloe`` in a process that kills itself at a chosen write, with no chance to clean up.

    python -m cli.killed_run before|after NTH PATTERN ARGUMENT...

The process dies right before or after the ``NTH`` write to a store whose whole URL matches the shell pattern.
"""

import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any

from icefloe.cli.command_line import main
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.store import join_url
from support.fakes.stores import kill_process


class Executioner:
    """Counts the writes that match."""

    def __init__(self, when: str, nth: int, pattern: str) -> None:
        self._when, self._nth, self._pattern = when, nth, pattern
        self._seen, self._lock = 0, Lock()

    def watch(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def watched(store: ObjectStore, key: str, data: Any) -> Any:
            is_due = self._is_due(join_url(store.url, key))
            if is_due and self._when == "before":
                kill_process()
            answer = write(store, key, data)
            if is_due:
                kill_process()
            return answer

        return watched

    def _is_due(self, url: str) -> bool:
        if not fnmatchcase(url, self._pattern):
            return False
        with self._lock:
            self._seen += 1
            return self._seen == self._nth


if __name__ == "__main__":
    when, nth, pattern, *arguments = sys.argv[1:]
    executioner = Executioner(when, int(nth), pattern)
    ObjectStore.put = executioner.watch(ObjectStore.put)  # type: ignore[method-assign]
    ObjectStore.create = executioner.watch(ObjectStore.create)  # type: ignore[method-assign]
    sys.exit(main(arguments))
