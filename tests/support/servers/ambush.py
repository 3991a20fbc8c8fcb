"""A process whose request to a server is struck: the process is killed there, the answer is lost, others come first."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from support.fakes.faulty_proxy import Answer, Fault, answers, faulty_proxy, reset
from support.forked import forked

__all__ = ["LOST", "Ambush"]

LOST: Final[dict[str, Fault]] = {"lost": reset, "late": answers(504, "GatewayTimeout"), "denied": answers(500, "Error")}
"""Faults of the answer to a request that the server has fulfilled."""
_SECONDS: Final = 60


@dataclass
class Ambush:
    """Counts the requests of one run to all servers that it stands before, and strikes at one of them.

    Attributes:
        nth: the request that is struck; 0 for none.
        concerns: which requests are counted.
        before: called before the server gets it; False: it never does.
        fault: in place of its answer.
        seen: how many requests there were.
        struck: the first line of the one.
    """

    nth: int = 0
    concerns: Callable[[bytes], bool] = bool
    before: Callable[[], bool] = bool
    fault: Fault | None = None
    seen: int = 0
    struck: str = ""
    _due: bytes | None = None
    _process: Future[int] = field(default_factory=Future)
    _lock: Lock = field(default_factory=Lock)

    def set(
        self,
        nth: int,
        *,
        concerns: Callable[[bytes], bool] = bool,
        before: Callable[[], bool] | None = None,
        fault: Fault | None = None,
    ) -> None:
        """Strikes at a request of the next run."""
        self.nth, self.concerns, self.before, self.fault = nth, concerns, before or (lambda: True), fault
        self.seen, self.struck, self._due, self._process = 0, "", None, Future()

    @contextmanager
    def before_server(self, port: int) -> Iterator[int]:
        """Stands before the server on a port of this machine; gives the port that speaks for it."""
        with faulty_proxy(port, self._answer, is_struck=lambda _: True, concerns=self._is_due) as proxy:
            proxy.passes = self._passes
            yield proxy.port

    def run(self, *arguments: str) -> tuple[int, str]:
        """Runs ``icefloe`` in a process that can be killed; its exit code and what it says."""
        done = forked("icefloe", arguments, environ=os.environ, started=self._started)
        return done.returncode, done.stdout + done.stderr

    def kill(self) -> bool:
        """Kills the process of this run, so that the request goes nowhere."""
        os.kill(self._process.result(_SECONDS), signal.SIGKILL)
        return False

    def kill_after(self, answer: Answer, data: bytes) -> None:  # noqa: ARG002
        """The fault that the process is killed when the answer is there."""
        self.kill()

    def _started(self, number: int) -> None:
        # Of runs at once, the first one is struck.
        if not self._process.done():
            self._process.set_result(number)

    def _passes(self, request: bytes) -> bool:
        with self._lock:
            if not self.concerns(request):
                return True
            self.seen += 1
            if self.seen != self.nth:
                return True
            self.struck = request.partition(b"\r\n")[0][:120].decode(errors="replace")
            if self.fault is not None:
                self._due = request
        return self.before()

    def _is_due(self, request: bytes) -> bool:
        return request is self._due

    def _answer(self, answer: Answer, data: bytes) -> None:
        assert self.fault is not None
        self._due = None
        self.fault(answer, data)
