"""A server that the demo starts and delivers to."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from demo.flights_table import TableChange
from demo.progress import Progress

__all__ = ["Destination"]

_Server = TypeVar("_Server", bound=AbstractContextManager[object])


class Destination(ABC, Generic[_Server]):
    """A server with the changes of the demo; a context manager, which starts it and ends it.

    Args:
        server: not yet started.
    """

    pipeline: ClassVar[str]
    """Name of the pipeline file that delivers to it."""
    title: ClassVar[str]
    sees_each_state: ClassVar[bool] = False
    """True if every state counts that readers see, so that each change of the table shows at once."""

    def __init__(self, server: _Server) -> None:
        self._server = server

    def __enter__(self) -> Self:
        """Starts the server."""
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._server.__exit__(None, None, None)

    @property
    @abstractmethod
    def connections(self) -> Mapping[str, str]:
        """The Airflow connection that the pipeline names, as an environment variable."""

    def disturb(self, number: int, pipeline: Path, progress: Progress) -> None:
        """Called before the run of each batch, which must come to the same end."""

    @abstractmethod
    def show(self, progress: Progress, changes: Sequence[TableChange], rows: int) -> list[str]:
        """Says what a reader finds; returns a sentence for each difference from the table.

        Args:
            progress: says it.
            changes: changes that were made to the table.
            rows: rows that the table has now.
        """
