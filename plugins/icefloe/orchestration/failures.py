"""From the two families of our errors to what Airflow retries and what it does not."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from icefloe.errors import IcefloeError, TerminalError

__all__ = ["clear_failures"]

logger = logging.getLogger(__name__)


@contextmanager
def clear_failures(task_id: str) -> Iterator[None]:
    """Gives the sentence of an error a line of its own; fails the task at once where retrying cannot help.

    Airflow prints the traceback of whatever a task raises, with the sentence cut off on top. So the way to an error
    that needs no traceback goes into a folded group of the log, and only Airflow's own frames are left below it.
    Every other error is Airflow's to retry.
    """
    try:
        yield
    except TerminalError as error:
        sentence = f"{task_id}: {error.sentence}"
        logger.info("::group::Where it was raised")
        logger.info("traceback", exc_info=error)
        logger.info("::endgroup::")
        logger.error("%s", sentence)  # noqa: TRY400 - the traceback stands above
        raise AirflowFailException(sentence) from None
    except IcefloeError as error:
        logger.error("%s: %s", task_id, error.sentence)  # noqa: TRY400 - Airflow prints the traceback
        raise
