"""Two pairs of rows whose hashes are equal under the public key, found by lattice reduction (LLL) in half a minute.

With a known key a hash is linear in the lowest bytes of its words, so a short vector of the lattice of the factors is a
pair of rows. Nobody can do that for a key that is drawn after the rows are written.
"""

from typing import Final

__all__ = ["FORGED", "NUMBERS", "PLAIN"]

NUMBERS: Final = (
    [111, 770, 0, 339, 0, 0, 0, 0, 145, 339, 0, 0],
    [0, 0, 94, 0, 634, 855, 574, 164, 0, 0, 203, 219],
)
"""Rows of twelve numbers."""

_STEPS: Final = (
    -5, -3, 5, 2, 3, -10, 6, 8, -2, -8, 2, 9, 0, 5, -2, 0, 1, -4, 3, -10, -5, -1, -2, 2, 7, 4, 3, 6, -9, 6,
)  # fmt: skip
PLAIN: Final = "account:" + "m" * 8 * len(_STEPS)
"""A text in the third column; the columns before it are equal."""
FORGED: Final = "account:" + "".join(chr(ord("m") + step) + "m" * 7 for step in _STEPS)
