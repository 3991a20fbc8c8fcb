"""One server that the demo or a test starts: its process, its output and the condition by which it is ready."""

import pwd
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGTERM, Signals
from typing import Any, Final

__all__ = ["CACHE", "ServerDiedError", "ServerProcess", "ServerUnavailableError", "answers", "as_user"]

CACHE: Final = Path(__file__).parents[2] / ".cache"
_STOP_SECONDS: Final = 15


class ServerUnavailableError(Exception):
    """The server cannot be had on this machine: the demo says why, and a test skips."""


class ServerDiedError(Exception):
    """The server was there and ended, or never got ready: a test fails."""


class ServerProcess:
    """A process in a folder of its own, ended by its pid.

    Args:
        name: for errors and for the files ``NAME.log`` and ``NAME.pid``.
        folder: where it runs.
        user: to run as, where root starts it; None: this user.
        stop_signal: what asks it to end.
    """

    def __init__(self, name: str, folder: Path, *, user: str | None = None, stop_signal: Signals = SIGTERM) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._user = user
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        command: Sequence[str | Path],
        *,
        environ: Mapping[str, str],
        is_ready: Callable[[], bool],
        seconds: float,
    ) -> None:
        """Starts the server and waits until it is ready.

        Raises:
            ServerDiedError: it ended, or was not ready in time.
        """
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                **as_user(self._user),
            )  # fmt: skip
        (self.folder / f"{self.name}.pid").write_text(f"{self._process.pid}\n")
        deadline = time.monotonic() + seconds
        while not is_ready():
            self.refuse_dead()
            if time.monotonic() > deadline:
                self.stop()
                raise ServerDiedError(f"{self.name} was not ready after {seconds} seconds:\n{self._last_words()}")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        return self._started().pid

    @property
    def exit_code(self) -> int | None:
        """Of the process that was started last; None: it runs."""
        return self._started().poll()

    def refuse_dead(self) -> None:
        """Fails a test whose server is gone, before it takes the consequences for a fault of icefloe.

        Raises:
            ServerDiedError: it is.
        """
        if (code := self._started().poll()) is not None:
            raise ServerDiedError(f"{self.name} ended with {code}:\n{self._last_words()}")

    def stop(self) -> None:
        """Ends the process, if it still runs, and waits for it."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Ends the process without a chance to tidy up, and waits for it."""
        process = self._started()
        process.kill()
        process.wait()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


def as_user(name: str | None) -> dict[str, Any]:
    """The arguments of a subprocess of this user in the user's own group; None: of the user who starts it."""
    if name is None:
        return {}
    found = pwd.getpwnam(name)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def answers(url: str, status: int) -> Callable[[], bool]:
    """The condition that a GET of a URL is answered with a status."""

    def is_answered() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - a URL of ours
                return answer.status == status
        except urllib.error.HTTPError as error:
            return error.code == status
        except (OSError, urllib.error.URLError):
            return False

    return is_answered
