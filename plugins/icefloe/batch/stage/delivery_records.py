"""Records of a batch that is delivered to a sink: one for each part, one for the whole, created only if absent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict

from icefloe.batch.batch_keys import begun_key, delivery_key
from icefloe.batch.context.batch_folder import load_batch_document
from icefloe.documents import STRICT, dump_document
from icefloe.sinks.part_sink import PartDelivery
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import KeyMissingError, Store

__all__ = [
    "BatchDelivery",
    "create_batch_delivery",
    "create_part_delivery",
    "keep_begun",
    "load_batch_delivery",
    "load_part_deliveries",
    "load_part_delivery",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunDelivery:
    """``deliveries/begun.json``: facts that the first try found at the sink, for all tries and all parts."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDelivery:
    """``delivery.json``: a batch that is visible at its sink; the numbers are sums of those of `PartDelivery`.

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


def keep_begun(store: Store, facts: Mapping[str, object]) -> Mapping[str, object]:
    """Records the facts of the first try; returns those that count."""
    if store.create(begun_key(), dump_document(BegunDelivery(facts=facts))):
        return facts
    return load_batch_document(BegunDelivery, store, begun_key(), what="the begun delivery").facts


def load_part_delivery(store: Store, number: int) -> PartDelivery | None:
    """The delivery of a part; None if there is none yet."""
    try:
        return load_batch_document(PartDelivery, store, delivery_key(number), what="the delivery")
    except KeyMissingError:
        return None


def load_part_deliveries(store: Store, numbers: Iterable[int]) -> list[PartDelivery | None]:
    """`load_part_delivery` of each part, several at once, in the order given."""
    return map_parallel(partial(load_part_delivery, store), numbers, at_once=store.requests_at_once)


def create_part_delivery(store: Store, delivery: PartDelivery) -> None:
    """Records the delivery of a part, unless another try was first."""
    store.create(delivery_key(delivery.number), dump_document(delivery))


def load_batch_delivery(store: Store) -> BatchDelivery | None:
    """The delivery of the batch; None if it is not visible as a whole yet."""
    try:
        return load_batch_document(BatchDelivery, store, delivery_key(None), what="the delivery")
    except KeyMissingError:
        return None


def create_batch_delivery(store: Store, delivery: BatchDelivery) -> None:
    """Records that the batch is visible, unless another try was first."""
    store.create(delivery_key(None), dump_document(delivery))
