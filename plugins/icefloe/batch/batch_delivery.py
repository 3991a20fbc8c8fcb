"""``delivery.json``: a batch that is visible at the sink for which it was staged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict

from icefloe.documents import STRICT
from icefloe.sinks.sink import PartDelivery

__all__ = ["BatchDelivery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDelivery:
    """A batch that is visible at its sink; the numbers are sums of those of `PartDelivery`.

    Attributes:
        sink: type of the sink.
        url: the destination, for people.
        visible_at: time at which the whole batch was there, ISO 8601.
        lag_seconds: seconds from the last commit of the batch to ``visible_at``; None if the batch has no commit.
        seconds: seconds that the last try took.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    sink: str
    url: str
    parts: int
    documents: int
    repeated: int
    retries: int
    refused: int
    dead_letters: int
    superseded: int
    bytes: int
    visible_at: str
    lag_seconds: float | None
    seconds: float

    @classmethod
    def of(
        cls,
        deliveries: Sequence[PartDelivery],
        *,
        sink: str,
        url: str,
        visible_at: str,
        lag_seconds: float | None,
        seconds: float,
    ) -> Self:
        """The delivery of a batch from those of its parts."""
        return cls(
            sink=sink,
            url=url,
            parts=len(deliveries),
            documents=sum(each.documents for each in deliveries),
            repeated=sum(each.repeated for each in deliveries),
            retries=sum(each.retries for each in deliveries),
            refused=sum(each.refused for each in deliveries),
            dead_letters=sum(each.dead_letters for each in deliveries),
            superseded=sum(each.superseded for each in deliveries),
            bytes=sum(each.bytes for each in deliveries),
            visible_at=visible_at,
            lag_seconds=lag_seconds,
            seconds=seconds,
        )
