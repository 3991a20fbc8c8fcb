"""A local disk that fails at one system call of this process, as the kernel would.

The store of local disk makes these calls through `os`, so that a fault costs no process.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from unittest import mock

__all__ = ["FAULTS", "DiskFault", "failing_disk"]


@dataclass(frozen=True, kw_only=True)
class DiskFault:
    """A call, and what comes of it.

    Attributes:
        call: name of the function in `os`.
        code: number of the error that it raises; None for a write that takes a part of its bytes.
    """

    call: str
    code: int | None

    def strike(self, whole: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The outcome of the call."""
        if self.code is None:
            descriptor, data = arguments
            return whole(descriptor, bytes(data)[: max(1, len(data) // 2)])
        raise OSError(self.code, os.strerror(self.code))

    def __str__(self) -> str:
        return f"{self.call} {'short' if self.code is None else errno.errorcode[self.code]}"


FAULTS = [
    DiskFault(call="write", code=errno.ENOSPC),
    DiskFault(call="write", code=errno.EDQUOT),
    DiskFault(call="write", code=None),
    DiskFault(call="fsync", code=errno.EIO),
    DiskFault(call="open", code=errno.EMFILE),
    DiskFault(call="link", code=errno.EIO),
    DiskFault(call="replace", code=errno.EIO),
    DiskFault(call="unlink", code=errno.EIO),
]


@contextmanager
def failing_disk(fault: DiskFault, nth: int, below: Path) -> Iterator[list[str]]:
    """Lets the n-th of some calls fail; gives a list with the path that it was about, empty if it never came.

    Args:
        fault: the fault.
        nth: of the calls about files below the folder, counted from 1.
        below: folder on the disk that fails.
    """
    whole = getattr(os, fault.call)
    struck: list[str] = []
    seen, lock = 0, Lock()

    def failing(*arguments: Any, **options: Any) -> Any:
        nonlocal seen
        path = _path(arguments[0])
        if not path.startswith(f"{below}/"):
            return whole(*arguments, **options)
        with lock:
            seen += 1
            is_due = seen == nth
        if not is_due:
            return whole(*arguments, **options)
        struck.append(path)
        return fault.strike(whole, arguments)

    with mock.patch.object(os, fault.call, failing):
        yield struck


def _path(file: Any) -> str:
    return str(Path(f"/proc/self/fd/{file}").readlink()) if isinstance(file, int) else os.fspath(file)
