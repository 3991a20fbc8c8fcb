"""Cases that only a release must pass."""

from typing import Any

import pytest

__all__ = ["extended"]


def extended(*values: Any) -> Any:
    """A case that `make extended` runs and `make test` leaves out, because others hold the same in short.

    >>> extended(2, "orc").values
    (2, 'orc')
    """
    return pytest.param(*values, marks=pytest.mark.extended)
