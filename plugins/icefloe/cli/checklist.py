"""Checks that are all made, each on a line of its own, and the exit code they add up to."""

from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

from icefloe.cli.screen import Screen
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.patience import answer_within, brief_seconds
from icefloe.redaction.hidden import redacted

Found = TypeVar("Found")

_NAME_WIDTH: Final = 10


class Checklist:
    """Makes checks and prints the result of each.

    Waiting for places that do not answer does not add up: once a check has waited in vain, later checks share the rest
    of the patience.

    Args:
        screen: prints the lines.
        patience_seconds: for all places together that do not answer.
    """

    def __init__(self, screen: Screen, *, patience_seconds: float) -> None:
        self._screen = screen
        self._patience_seconds = patience_seconds
        self._seconds_in_vain = 0.0
        self._errors: list[IcefloeError] = []
        self._documents: list[dict[str, object]] = []
        can_tick = screen.output.encoding.startswith("utf")
        self._tick, self._cross = ("✓", "✗") if can_tick else ("ok", "failed")

    @property
    def exit_code(self) -> int:
        """0 if all checks passed; 65 if an error is permanent; 75 if all errors are transient."""
        if not self._errors:
            return 0
        is_final = any(isinstance(error, TerminalError) for error in self._errors)
        return TerminalError.exit_code if is_final else TransientError.exit_code

    @property
    def documents(self) -> list[dict[str, object]]:
        """The results of the checks in their order, for programs."""
        return list(self._documents)

    def run(self, name: str, check: Callable[[], Found], say: Callable[[Found], str]) -> Found | None:
        """Makes one check.

        Args:
            name: of the check.
            check: raises an error of ours if something is wrong.
            say: makes the text to print if nothing is wrong.

        Returns:
            The result of the check; None if it failed. A fault that an earlier check reported is not reported again.
        """
        try:
            found = self._answer(name, check)
        except IcefloeError as error:
            lines = [] if error.sentence in {told.sentence for told in self._errors} else error.sentence.split("\n")
            self._errors.append(error)
            for line in lines:
                self._screen.say(f"{self._cross} {name:<{_NAME_WIDTH}} {line}")
            self._documents.append({"check": name, "is_passed": False, "text": error.sentence})
            return None
        text = redacted(say(found))
        self._screen.say(f"{self._tick} {name:<{_NAME_WIDTH}} {text}")
        self._documents.append({"check": name, "is_passed": True, "text": text})
        return found

    def _answer(self, name: str, check: Callable[[], Found]) -> Found:
        started = monotonic()
        try:
            if not self._seconds_in_vain:
                return check()
            seconds_left = max(self._patience_seconds - self._seconds_in_vain, brief_seconds(self._patience_seconds))
            return answer_within(seconds_left, check)
        except TimeoutError as error:
            self._seconds_in_vain += monotonic() - started
            raise TransientError(
                f"{name} could not be checked: {error}; other places did not answer either, so icefloe did not wait "
                "longer for this one; run again when they answer"
            ) from None
        except TransientError:
            self._seconds_in_vain += monotonic() - started
            raise
