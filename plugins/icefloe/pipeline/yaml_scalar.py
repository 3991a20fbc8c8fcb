"""Plain scalars by the core schema of YAML 1.2, in which ``off``, ``no`` and ``on`` are text."""

import math
import re
from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

_CONSTANTS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,40}|0o[0-7]{1,40}|0x[0-9A-Fa-f]{1,40}")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar.

    Numbers that are not finite, dates and sexagesimal numbers stay text: no key of a pipeline takes them.

    >>> [read_scalar(text) for text in ("off", "true", "~", "017", "0x10", "1e3", "12:30", "64MiB")]
    ['off', True, None, 17, 16, 1000.0, '12:30', '64MiB']
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text
