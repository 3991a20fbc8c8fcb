"""The process that submits an application: a driver ends if it is gone.

A killed Airflow worker, or a killed `icefloe run`, does not take spark-submit with it. The driver would go on for
hours, in the memory that the next try needs.
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
    """Lets this process end within a second or two after its submitter did; Spark ends with its driver.

    Drivers run on the machine of their submitter, because icefloe submits in client mode only. A submitter outside of
    this container cannot be seen from here, and is not looked for. One that should be seen and is gone from the start
    was killed while the JVM started: this process ends at once.

    Args:
        environ: of this process.
        end: called with the exit code 75; there is nobody left to whom anything else could be said.
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
    """The processes that a number of a process is about: those of one container on one boot; "" if unknown."""
    try:
        return f"{_BOOT.read_text().strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return ""  # not Linux
