"""The places of a case's map outputs: the storage, and in `make extended` nodes too."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from icefloe.shuffle import map_output

__all__ = ["DATA_FILES", "OVER_NODES", "blocks_in_a_file_of_their_own", "data_in_the_storage"]

OVER_NODES = pytest.param("nodes", marks=pytest.mark.extended)
"""The parameter of a fixture whose pipeline keeps its map outputs at nodes."""
DATA_FILES = "data files"
"""The parameter of a fixture whose map outputs have data files in the storage, as large ones have."""
data_in_the_storage = pytest.mark.parametrize("workshop", [DATA_FILES], indirect=True)
"""Marks a case that looks for data files in the storage, and so is not tried over nodes."""


@contextmanager
def blocks_in_a_file_of_their_own() -> Iterator[None]:
    """Small map outputs are written like large ones, in two files."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(map_output, "_JOINED_BYTES", -1)
        yield
