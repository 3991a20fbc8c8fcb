"""The places of a case's map outputs: the storage, and in `make extended` nodes too."""

import pytest

__all__ = ["OVER_NODES", "data_in_the_storage"]

OVER_NODES = pytest.param("nodes", marks=pytest.mark.extended)
"""The parameter of a fixture whose pipeline keeps its map outputs at nodes."""
data_in_the_storage = pytest.mark.parametrize("workshop", ["store"], indirect=True)
"""Marks a case that looks for data files in the storage, and so is not tried over nodes."""
