"""Processes that are forked from one that has imported the library, for tests that kill, starve or silence commands.

    forked("icefloe", ["run", "events.yaml"], environ=os.environ)

Starting Python and importing the library takes 1.2 to 1.6 s of CPU, a fork takes 0.1. Each call is a real process with
arguments, environment, output and an end of its own. Only modules that read the environment while they are imported,
such as PyIceberg's configuration, see that of the tests: for these, start Python itself.
"""

import atexit
import gc
import json
import os
import runpy
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final

from support.known_key import known_bits

__all__ = ["forked"]

TESTS: Final = Path(__file__).parents[1]
_IMPORTED: Final = ("icefloe.engines.run_batch", "pyiceberg.catalog.sql", "pyiceberg.catalog.rest")


def forked(
    module: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    timeout_seconds: float = 120,
    started: Callable[[int], object] = id,
) -> "subprocess.CompletedProcess[str]":
    """Runs a module as ``python -m`` does; returns as `subprocess.run`, with the number of a signal below 0.

    Args:
        module: to run.
        arguments: its own.
        environ: its whole environment.
        timeout_seconds: until it is killed.
        started: is called with the number of the process.

    Raises:
        TimeoutError: the process did not end in time; it is killed.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        out, err = Path(folder) / "out", Path(folder) / "err"
        server.connect(_server())
        answers = server.makefile("rw")
        request = {
            "module": module, "arguments": list(arguments), "environ": dict(environ), "folder": str(Path.cwd()),
            "out": str(out), "err": str(err),
        }  # fmt: skip
        print(json.dumps(request), file=answers, flush=True)
        number = int(answers.readline())
        started(number)
        server.settimeout(timeout_seconds)
        try:
            code = int(answers.readline())
        except TimeoutError:
            os.kill(number, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess([module, *arguments], code, out.read_text(), err.read_text())


@cache
def _server() -> str:
    """The address of the process to fork from. It ends with this process, because its standard input ends then."""
    address = f"{tempfile.mkdtemp()}/address"
    path = os.pathsep.join([str(TESTS.parent / "plugins"), str(TESTS)])
    process = subprocess.Popen(
        [sys.executable, "-m", "support.forked", address], env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "listening\n", "the process to fork from did not start"
    atexit.register(process.communicate)
    return address


def _serve(address: str) -> dict[str, Any]:
    """Forks at each request. Only the forked processes return, with the request."""
    signal.signal(signal.SIGCHLD, _reap)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("listening", flush=True)
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                shutil.rmtree(Path(address).parent)
                sys.exit()
            connection, _ = listening.accept()
            with connection:
                # Two forks: one for the command, and one that waits for its end while this process serves others.
                if os.fork() == 0:
                    listening.close()
                    return _watched(connection)


def _reap(*_: object) -> None:
    """Takes leave of the processes that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watched(connection: socket.socket) -> dict[str, Any]:
    """Forks once more, answers with the number of that process and then with its exit code, and ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers = connection.makefile("rw")
    request: dict[str, Any] = json.loads(answers.readline())
    number = os.fork()
    if number == 0:
        return request
    print(number, file=answers, flush=True)
    _, status = os.waitpid(number, 0)
    print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    os._exit(0)


def _run(request: Mapping[str, Any]) -> None:
    """Runs in this process what was asked for."""
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    for descriptor, path in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = [request["module"], *request["arguments"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    commands = import_module("icefloe.cli")
    for name in (*_IMPORTED, *(f"icefloe.cli.{found.name}" for found in iter_modules(commands.__path__))):
        import_module(name)
    secrets.randbits = known_bits
    # A collection in a forked process would write to every object, and copy the memory of all of them.
    gc.collect()
    gc.freeze()
    with warnings.catch_warnings():
        # Arrow and OpenBLAS have threads of their own here, and are ready for forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        asked = _serve(sys.argv[1])
    _run(asked)
