"""Map outputs whose blocks have a file of their own, as those of many rows have."""

from collections.abc import Iterator

import pytest

from support.pipelines.transfers import blocks_in_a_file_of_their_own


@pytest.fixture
def blocks_apart() -> Iterator[None]:
    with blocks_in_a_file_of_their_own():
        yield
