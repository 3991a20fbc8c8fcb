"""The properties of a catalog, checked before PyIceberg takes them: its own checks fail some of them far from here."""

import re
from collections.abc import Mapping
from typing import Final

from icefloe.errors import TerminalError

_MAPPINGS: Final = ("auth", "ssl")
_IN_HEADERS: Final = re.compile(
    r"token|credential|header\..*|scope|.*access-key-id|.*session-token|.*[._-]token|.*sas-token.*|ur[il]|.*endpoint"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BREAKS: Final = "\r\n"


def usable_properties(name: str, properties: Mapping[str, object]) -> dict[str, object]:
    """The properties as PyIceberg takes them, without the line break that a mounted secret ends in.

    Args:
        name: of the catalog.
        properties: text, numbers and booleans, or mappings for the properties that PyIceberg takes as mappings.

    Raises:
        TerminalError: no request can carry a property, or one is text in place of a mapping. The error names the
            property, never its value.
    """
    usable = {key: _stripped(value) for key, value in properties.items() if value is not None}
    # The extra of a connection is JSON.
    usable |= {key: str(value).lower() for key, value in usable.items() if isinstance(value, bool | int | float)}
    for key in _MAPPINGS:
        if key in usable and not isinstance(usable[key], Mapping):
            raise TerminalError(
                f"catalog {name!r}: its property {key!r} must be a mapping, as in `auth: {{type: basic, basic: "
                "{username: ..., password: ...}}` of .pyiceberg.yaml, and not a text",
                catalog=name, property=key,
            )  # fmt: skip
    for key, value in usable.items():
        if isinstance(value, Mapping | list) and key not in _MAPPINGS:
            raise TerminalError(
                f"catalog {name!r}: its property {key!r} must be text, a number, true or false, not a mapping or a "
                "list: write it so",
                catalog=name, property=key,
            )  # fmt: skip
        if isinstance(value, str) and _IN_HEADERS.fullmatch(key) and _CONTROL.search(value):
            raise TerminalError(
                f"catalog {name!r}: its property {key!r} holds a line break or another character that no request can "
                "carry: write its value again, in one line",
                catalog=name, property=key,
            )  # fmt: skip
    return usable


def _stripped(value: object) -> object:
    """Text without line breaks around it, also in mappings."""
    if isinstance(value, Mapping):
        return {key: _stripped(below) for key, below in value.items()}
    return value.strip(_BREAKS) if isinstance(value, str) else value
