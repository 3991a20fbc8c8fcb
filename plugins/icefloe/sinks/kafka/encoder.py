"""Messages of a topic: what an encoder makes of events."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from icefloe.sinks.kafka.event_rows import EventRows

PIPELINE_HEADER: Final = "pipeline"
BATCH_HEADER: Final = "batch"
SNAPSHOT_HEADER: Final = "snapshot_id"
"""Headers of every change, as text; a truncation and the marks of a batch have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The messages of some events, one an event.

    Attributes:
        keys: of each message; None if rows have no identity.
        values: of each message; None: the row is deleted, and says no more.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


class Encoder(ABC):
    """Encodes events of one batch."""

    @property
    def key_schema_id(self) -> int | None:
        """The id of a registry that the bytes of each key have; None: they have none."""
        return None

    @abstractmethod
    def encode(self, events: EventRows) -> Messages:
        """The messages of events, in their order."""

    @abstractmethod
    def truncation(self) -> bytes | None:
        """The message that says that all rows before it are gone; None: the envelope has none."""
