"""The library's log on standard error, while a command runs."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from icefloe.outgoing import OutgoingFilter, outgoing_logs

__all__ = ["log_to_stderr"]


@contextmanager
def log_to_stderr(*, is_verbose: bool) -> Iterator[None]:
    """Shows warnings, or with ``is_verbose`` every decision; the loggers are restored afterwards."""
    logger = logging.getLogger("icefloe")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(name)s: %(message)s" if is_verbose else "icefloe: %(message)s")
    )
    handler.addFilter(OutgoingFilter())
    # Other libraries log too; their text about a request may hold the credentials that opened it.
    others = outgoing_logs(*logging.getLogger().handlers, *filter(None, [logging.lastResort]))
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if is_verbose else logging.WARNING)
    logger.propagate = False
    try:
        with others:
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
