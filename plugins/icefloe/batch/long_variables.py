"""Environment variables of any length: Linux starts no program with one of more than 128 KiB."""

from collections.abc import Mapping
from typing import Final

_MOST_CHARACTERS: Final = 1 << 16


def long_variable(name: str, text: str) -> dict[str, str]:
    """The variables that carry a text to a child process: one, or its number of pieces and a variable for each.

    Args:
        name: of the variable.
        text: in ASCII, and no number.

    >>> long_variable("X", "{}")
    {'X': '{}'}
    """
    if len(text) <= _MOST_CHARACTERS:
        return {name: text}
    pieces = [text[start : start + _MOST_CHARACTERS] for start in range(0, len(text), _MOST_CHARACTERS)]
    return {name: str(len(pieces)), **{f"{name}_{number}": piece for number, piece in enumerate(pieces)}}


def text_of_variable(name: str, environ: Mapping[str, str]) -> str | None:
    """The text that `long_variable` wrote; None if there is no such variable, a number if one of its pieces is gone."""
    text = environ.get(name)
    if text is None or not text.isdecimal():
        return text
    pieces = [environ.get(f"{name}_{number}") for number in range(int(text))]
    return text if None in pieces else "".join(filter(None, pieces))
