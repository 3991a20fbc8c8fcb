from collections.abc import Iterator

import pytest

from shuffle.memory_store import MemoryStore
from support.pipelines.transfers import blocks_in_a_file_of_their_own


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def blocks_apart() -> Iterator[None]:
    """Map outputs whose blocks have a file of their own, as those of many rows have."""
    with blocks_in_a_file_of_their_own():
        yield
