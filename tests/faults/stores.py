"""The stores in which a stopped run works."""

from dataclasses import dataclass, field
from pathlib import Path

from icefloe.batch.credentials import Credentials

__all__ = ["Stores"]


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores of storage, checkpoints and sinks of a place.

    Attributes:
        folder: the files behind the URL.
        url: as pipelines name it.
        options: that open it; see `icefloe.storage.location.open_store`.
    """

    folder: Path
    url: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def credentials(self) -> Credentials:
        """As an operator hands them over."""
        return Credentials(storage_options=self.options, sink_options=self.options)
