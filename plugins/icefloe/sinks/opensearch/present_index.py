"""The index of the present load, for commands that write no batch: a load may replace it at any moment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from icefloe.errors import TransientError
from icefloe.sinks.opensearch.claims import BegunBatch, Claims
from icefloe.sinks.opensearch.cluster import IndexGoneError
from icefloe.sinks.opensearch.index_names import IndexNames

_Result = TypeVar("_Result")


class LoadBeginsError(TransientError):
    """A load has begun that has not made its index yet."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentIndex:
    """The index that the batch which began last is written to.

    Attributes:
        claims: know that batch.
        names: of the index.
        url: of the sink, for errors.
    """

    claims: Claims
    names: IndexNames
    url: str

    def work_on(self, work: Callable[[BegunBatch], _Result]) -> _Result | None:
        """The result of work on the index, done again on the next one if a load replaces it; None if no batch began.

        Raises:
            IndexGoneError: somebody removed the index.
            LoadBeginsError: it is about to be made.
        """
        begun = self.claims.progress()
        while begun is not None:
            try:
                return work(begun)
            except IndexGoneError:
                latest = self.claims.progress()
                if latest is None or latest.target == begun.target:
                    self._refuse_unmade(begun)
                    raise
                begun = latest
        return None

    def _refuse_unmade(self, begun: BegunBatch) -> None:
        """Raise if the batch that began last makes the index itself, and may not have got there yet."""
        if self.names.version_of(begun.target) == begun.version:
            raise LoadBeginsError(
                f"{self.url}: a load that has just begun makes index {begun.target}; run again when it has. If no run "
                "is under way, the next one makes it, or says the way out",
                url=self.url,
            ) from None
