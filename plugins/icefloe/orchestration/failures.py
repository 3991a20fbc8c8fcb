"""From the two families of our errors to what Airflow retries and what it does not."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from icefloe.errors import TerminalError

__all__ = ["clear_failures"]


@contextmanager
def clear_failures(task_id: str) -> Iterator[None]:
    """Fails the task at once where retrying cannot help; every other error is Airflow's to retry."""
    try:
        yield
    except TerminalError as error:
        raise AirflowFailException(f"{task_id}: {error.sentence}") from error
