"""Names of the indexes and aliases of one sink."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNames:
    """Names that belong to ``sink.index``.

    Attributes:
        index: the name that readers search.
    """

    index: str

    @property
    def state(self) -> str:
        """The hidden index of the claim."""
        return f"{self.index}-icefloe"

    @property
    def pattern(self) -> str:
        """Matches all indexes of all loads, and possibly indexes of others."""
        return f"{self.index}-*"

    def of_load(self, version: int) -> str:
        """The index of a load, by the version of the load's first batch."""
        return f"{self.index}-{version}"

    def writer(self, target: str) -> str:
        """The alias by which an index is written, which goes when the index goes.

        A cluster that does not know a name makes an index of it. It refuses to make one with capital letters, so a
        late write into an index that was removed creates nothing.
        """
        return f"{target}-WRITER"

    def version_of(self, name: str) -> int | None:
        """The version in the name of a load's index; None if it has another form."""
        found = re.fullmatch(rf"{re.escape(self.index)}-(\d+)", name)
        return int(found[1]) if found else None


def version_of_batch(generation: int, batch_number: int) -> int:
    """The version of every document of a batch: greater for later batches, and for a later owner of the index."""
    return generation << 32 | batch_number


def batch_number_of(version: int) -> int:
    """The number of the batch that a version was made with."""
    return version & (1 << 32) - 1


def generation_of(version: int) -> int:
    """The generation that a version was made with."""
    return version >> 32
