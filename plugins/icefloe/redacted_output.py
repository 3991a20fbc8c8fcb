"""Errors and log records on their way out, without hidden values."""

import copy
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, NoReturn

from icefloe.errors import IcefloeError
from icefloe.redaction.hidden import quoted, redacted, redacted_foreign

__all__ = ["filter_root_logs", "outgoing_errors", "outgoing_logs", "raise_outgoing", "shown"]

_OURS: Final = "icefloe"

_only_secrets = partial(redacted_foreign, only_secrets=True)


class ForeignError(Exception):
    """Replaces an error of another library: its name and its text, and nothing more."""


def shown(error: BaseException) -> BaseException:
    """An error as it may be printed with its causes, or its replacement.

    Errors of ours, and Python's whose text can be made harmless, stay what they are; only their causes change.
    """
    return _shown(error, {}, is_cause=False)


def raise_outgoing(error: BaseException, cause: BaseException | None = None) -> NoReturn:
    """Raises an error that leads to no value of a configuration, whatever is being handled now."""
    try:
        raise error from (None if cause is None else _shown(cause, {}))
    finally:
        error.__context__ = None


@contextmanager
def outgoing_errors() -> Iterator[None]:
    """Lets errors pass as they may be printed; for the exits: tasks, triggers, jobs, commands."""
    try:
        yield
    except BaseException as error:
        safe = shown(error)
        if safe is error:
            raise
        raise_outgoing(safe, safe.__cause__)


class OutgoingFilter(logging.Filter):
    """Takes hidden values out of records and their errors; if ``is_shared``, foreign records lose our secrets only."""

    def __init__(self, *, is_shared: bool = False) -> None:
        super().__init__()
        self._is_shared = is_shared

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            # The text as it will be printed: a secret may come from any argument.
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - of the text of an argument
            # The arguments do not fit the message: the handler would print both to the standard error.
            message = f"{record.msg} {_text(record.args)}"
            record.msg, record.args = message, None
        hide = self._hide(record)
        is_theirs = hide is _only_secrets
        # A line break that somebody named would begin a record of theirs.
        hidden = hide(message) if is_theirs else hide(message).replace("\n", "\\n")
        if hidden != message:
            record.msg, record.args = hidden, None
        if record.exc_info and record.exc_info[1] is not None and not (is_theirs and _is_free_of_secrets(record)):
            error = shown(record.exc_info[1])
            record.exc_info = (type(error), error, record.exc_info[2])
        if record.exc_text:
            record.exc_text = redacted_foreign(record.exc_text, only_secrets=is_theirs)
        return True

    def _hide(self, record: logging.LogRecord) -> Callable[[str], str]:
        if record.name.partition(".")[0] != _OURS:
            is_in_our_thread = (record.threadName or "").startswith(_OURS)
            return redacted_foreign if is_in_our_thread or not self._is_shared else _only_secrets
        arguments = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
        quotes_foreign = any(isinstance(each, BaseException) and not _is_ours(each) for each in arguments)
        return redacted_foreign if quotes_foreign else quoted


@contextmanager
def outgoing_logs(*handlers: logging.Handler) -> Iterator[None]:
    """Filters what handlers write; those of the root logger, unless others are given.

    Without any, Python writes warnings to the standard error, as in Spark's workers.
    """
    added = OutgoingFilter()
    last = () if logging.lastResort is None else (logging.lastResort,)
    filtered = handlers or tuple(logging.getLogger().handlers) or last
    for handler in filtered:
        handler.addFilter(added)
    try:
        yield
    finally:
        for handler in filtered:
            handler.removeFilter(added)


def filter_root_logs() -> None:
    """Filters the handlers of the root logger from now on: for a process that runs the triggers of many."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, OutgoingFilter) for each in handler.filters):
            handler.addFilter(OutgoingFilter(is_shared=True))


def _shown(error: BaseException, done: dict[int, BaseException], *, is_cause: bool = True) -> BaseException:
    if id(error) in done:
        return done[id(error)]
    # Errors of other libraries hold more than they say, such as a request with its headers.
    is_kept = not is_cause or _is_ours(error) or type(error).__module__ == "builtins"
    if is_kept and not _is_safe(error) and not _is_ours(error):
        # Code further out catches an error by its type.
        error.args = tuple(_printed(each) if isinstance(each, str) else each for each in error.args)
    # Noted before its causes are visited: a chain of causes may lead back to its beginning.
    safe = done[id(error)] = error if is_kept and _is_safe(error) else _stand_in(error)
    # Assigning a cause suppresses the context, so that comes last.
    is_suppressed, context = error.__suppress_context__, error.__context__
    cause = error.__cause__
    safe.__cause__ = None if cause is None else _shown(cause, done)
    safe.__context__ = None if context is None or is_suppressed else _shown(context, done)
    safe.__suppress_context__ = is_suppressed
    return safe


def _is_safe(error: BaseException) -> bool:
    texts = [_text(error), _text(error, repr), *map(_text, getattr(error, "__notes__", ()))]
    hide = redacted if _is_ours(error) else _printed if type(error).__module__ == "builtins" else redacted_foreign
    return all(hide(text) == text for text in texts)


def _printed(text: str) -> str:
    """Further lines are set in: none of them begins as a record of a log."""
    return re.sub(r"\n(?! {4})", "\n    ", redacted_foreign(text))


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, (IcefloeError, ForeignError))


def _stand_in(error: BaseException) -> BaseException:
    if isinstance(error, IcefloeError):
        # Something was hidden after it was made.
        made: BaseException = copy.copy(error)
    else:
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        made = ForeignError(f"{name}: {_printed(_text(error))}")
    return made.with_traceback(error.__traceback__)


def _is_free_of_secrets(record: logging.LogRecord) -> bool:
    text = "" if record.exc_info is None else logging.Formatter().formatException(record.exc_info)
    return _only_secrets(text) == text


def _text(value: object, write: Callable[[object], str] = str) -> str:
    """Empty if writing the value fails."""
    try:
        return write(value)
    except Exception:  # noqa: BLE001 - whatever a class of another library does there
        return ""
