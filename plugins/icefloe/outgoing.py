"""Errors and log records on their way out of the process, without the values that it hides."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from icefloe.errors import IcefloeError
from icefloe.redaction.hidden import redacted, redacted_foreign

__all__ = [
    "ForeignError",
    "OutgoingFilter",
    "filter_root_logs",
    "outgoing_errors",
    "outgoing_logs",
    "raise_outgoing",
    "shown",
]

_OURS: Final = "icefloe"


class ForeignError(Exception):
    """Stands in for an error of another library: its name and its text, without anything that it holds besides."""


def shown(error: BaseException) -> BaseException:
    """An error as it may be printed with its causes.

    Errors of ours, and those of Python whose text can be made harmless, stay what they are; only their causes change.

    Returns:
        The error itself, or what stands in for it.
    """
    return _shown(error, {}, is_cause=False)


def raise_outgoing(error: BaseException, cause: BaseException | None = None) -> NoReturn:
    """Raises an error that leads to no value of a configuration, whatever is being handled now.

    Args:
        error: to raise.
        cause: of it; shown.
    """
    try:
        raise error from (None if cause is None else _shown(cause, {}))
    finally:
        error.__context__ = None


@contextmanager
def outgoing_errors() -> Iterator[None]:
    """Lets errors pass as they may be printed. It stands where errors leave: tasks, triggers, jobs, commands."""
    try:
        yield
    except BaseException as error:
        safe = shown(error)
        if safe is error:
            raise
        raise_outgoing(safe, safe.__cause__)


class OutgoingFilter(logging.Filter):
    """Takes hidden values out of records, and out of the errors that they carry."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record pass."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            # The arguments do not fit the message: the handler would print both to the standard error.
            message, record.args = f"{record.msg} {record.args}", None
            record.msg = message
        hidden = redacted(message) if self._is_ours(record) else redacted_foreign(message)
        if hidden != message:
            record.msg, record.args = hidden, None
        if record.exc_info and record.exc_info[1] is not None:
            error = shown(record.exc_info[1])
            record.exc_info = (type(error), error, record.exc_info[2])
        if record.exc_text:
            record.exc_text = redacted_foreign(record.exc_text)
        return True

    def _is_ours(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        quotes_foreign = any(isinstance(each, BaseException) and not _is_ours(each) for each in arguments)
        return record.name.partition(".")[0] == _OURS and not quotes_foreign


@contextmanager
def outgoing_logs(*handlers: logging.Handler) -> Iterator[None]:
    """Filters what handlers write while it is entered; those of the root logger, unless others are given."""
    added = OutgoingFilter()
    filtered = handlers or tuple(logging.getLogger().handlers)
    for handler in filtered:
        handler.addFilter(added)
    try:
        yield
    finally:
        for handler in filtered:
            handler.removeFilter(added)


def filter_root_logs() -> None:
    """Filters what the handlers of the root logger write from now on: for a process that runs many tasks at once."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, OutgoingFilter) for each in handler.filters):
            handler.addFilter(OutgoingFilter())


def _shown(error: BaseException, done: dict[int, BaseException], *, is_cause: bool = True) -> BaseException:
    if id(error) in done:
        return done[id(error)]
    # Errors of other libraries hold more than they say, such as a request with its headers.
    is_kept = not is_cause or _is_ours(error) or type(error).__module__ == "builtins"
    if is_kept and not _is_safe(error) and not _is_ours(error):
        # What catches an error further out goes by its type.
        error.args = tuple(redacted_foreign(each) if isinstance(each, str) else each for each in error.args)
    safe = done[id(error)] = error if is_kept and _is_safe(error) else _stand_in(error)
    # Assigning a cause suppresses the context, so that comes last.
    is_suppressed, context = error.__suppress_context__, error.__context__
    cause = error.__cause__
    safe.__cause__ = None if cause is None else _shown(cause, done)
    safe.__context__ = None if context is None or is_suppressed else _shown(context, done)
    safe.__suppress_context__ = is_suppressed
    return safe


def _is_safe(error: BaseException) -> bool:
    notes = "\n".join(getattr(error, "__notes__", ()))
    texts = [str(error), repr(error), notes]
    hide = redacted if _is_ours(error) else redacted_foreign
    return all(hide(text) == text for text in texts)


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, (IcefloeError, ForeignError))


def _stand_in(error: BaseException) -> BaseException:
    if isinstance(error, IcefloeError):
        # Something was hidden after it was made.
        made: BaseException = type(error)(str(error), **error.facts)
    else:
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        made = ForeignError(f"{name}: {redacted_foreign(str(error))}")
    return made.with_traceback(error.__traceback__)
