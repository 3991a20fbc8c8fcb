"""How long to wait for a catalog or a store that does not answer."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Self, TypeVar

from icefloe.errors import TerminalError

__all__ = ["PATIENCE_VARIABLE", "Patience", "answer_within", "brief_seconds", "has_given_up", "patience_seconds"]

Answer = TypeVar("Answer")

PATIENCE_VARIABLE: Final = "ICEFLOE_PATIENCE_SECONDS"
_DEFAULT_SECONDS: Final = 60.0
_BRIEF_SHARE: Final = 1 / 12
_BRIEF_SECONDS: Final = 2.0
_THREAD_NAME: Final = "icefloe-waits-for-an-answer"


def patience_seconds(environ: Mapping[str, str]) -> float:
    """How long one place may keep silent before it is given up: ``ICEFLOE_PATIENCE_SECONDS``, 60 by default.

    >>> patience_seconds({}), patience_seconds({"ICEFLOE_PATIENCE_SECONDS": "7.5"})
    (60.0, 7.5)
    """
    text = environ.get(PATIENCE_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise TerminalError(f"{PATIENCE_VARIABLE} is {text!r}, not a number of seconds above 0: write 60, for example")
    return seconds


def brief_seconds(patience: float) -> float:
    """What a call gets that others have left nothing of a patience for, or that only tidies up: 5 of 60 seconds.

    >>> brief_seconds(60.0), brief_seconds(6.0), brief_seconds(1.0)
    (5.0, 2.0, 1.0)
    """
    return max(patience * _BRIEF_SHARE, min(_BRIEF_SECONDS, patience))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds that several calls share; each call gets what the calls before it left, and a little in any case.

    Attributes:
        seconds: of all calls together.
    """

    seconds: float
    _started: float = field(default_factory=monotonic)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Starts to wait now, as long as the environment says."""
        return cls(seconds=patience_seconds(environ))

    @property
    def seconds_left(self) -> float:
        """What the next call gets."""
        return max(brief_seconds(self.seconds), self._started + self.seconds - monotonic())

    def wait_for(self, call: Callable[[], Answer]) -> Answer:
        """What a call returns or raises.

        Raises:
            TimeoutError: it did neither in time.
        """
        return answer_within(self.seconds_left, call)


def answer_within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """What a call returns or raises, for calls into libraries that have no bound of their own.

    The call runs in a daemon thread. A call that is given up goes on there until it ends by itself, so what it may
    ask of a network should have a timeout too.

    Args:
        seconds: how long to wait.
        call: keeps no thread-local state.

    Raises:
        TimeoutError: it did neither in time.
    """
    answer: Future[Answer] = Future()
    context = copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            answer.set_exception(error)

    threading.Thread(target=run, name=_THREAD_NAME, daemon=True).start()
    done, _ = wait([answer], timeout=seconds)
    if not done:
        raise TimeoutError(f"no answer within {seconds:.3g} seconds")
    return answer.result()


def has_given_up() -> bool:
    """Whether a call that was given up still runs: a library may wait for it when the process ends."""
    return any(thread.name == _THREAD_NAME for thread in threading.enumerate())
