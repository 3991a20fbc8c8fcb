"""The release, as documents record it."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
