"""The process that submits an application: a driver ends if it is gone.

A killed Airflow worker or `icefloe run` does not take spark-submit with it. The driver would go on for hours, in the
memory that the next try needs.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from icefloe.threads import BegunThread

logger = logging.getLogger(__name__)

_VARIABLE: Final = "ICEFLOE_SUBMITTER_PID"
_SCOPE_VARIABLE: Final = "ICEFLOE_SUBMITTER_SCOPE"
_LOOK_SECONDS: Final = 1.0
_EXIT_CODE: Final = 75
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


def submitter_variables() -> dict[str, str]:
    """The environment by which an application knows this process."""
    return {_VARIABLE: str(os.getpid()), _SCOPE_VARIABLE: _scope()}


def end_with_submitter(environ: Mapping[str, str], *, end: Callable[[int], object] = os._exit) -> None:
    """Ends this process, and with it Spark, within two seconds of its submitter's end, with exit code 75.

    icefloe submits in client mode only, so both are on one machine. A submitter outside of this container is not looked
    for. One that is gone from the start was killed while the JVM started.
    """
    pid = int(environ.get(_VARIABLE, "0"))
    if pid > 0 and _is_there(pid):
        BegunThread(target=lambda: _watch(pid, end), name="submitter", daemon=True).start()
    elif pid > 0 and environ.get(_SCOPE_VARIABLE) and environ[_SCOPE_VARIABLE] == _scope():
        _end_without(pid, end)


def _watch(pid: int, end: Callable[[int], object]) -> None:
    while _is_there(pid):
        time.sleep(_LOOK_SECONDS)
    _end_without(pid, end)


def _end_without(pid: int, end: Callable[[int], object]) -> None:
    with suppress(Exception):  # the pipe of the log may be gone with its reader
        logger.error("process %d, which submitted this application, is gone: the application ends", pid)
    end(_EXIT_CODE)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to another user
    return True


def _scope() -> str:
    """The boot and container of process numbers; "" if unknown."""
    try:
        return f"{_BOOT.read_text().strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return ""  # not Linux
