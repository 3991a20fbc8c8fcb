"""Keys of stored objects: relative paths with ``/`` between their segments."""

import re
from typing import Final

from icefloe.errors import TerminalError

__all__ = ["check_key", "join_url"]

# A local store keeps a value that is still being written as ``key#1``, so no key may look like that, wherever it is.
_RESERVED_END: Final = re.compile(r"#\d+\Z")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_key(key: str) -> str:
    """The key, if every kind of store can hold it.

    >>> check_key("offsets/7.json")
    'offsets/7.json'

    Raises:
        TerminalError: an empty, ``.`` or ``..`` segment, a control character, or ``#`` and digits at the end.
    """
    is_bad_segment = any(segment in ("", ".", "..") for segment in key.split("/"))
    if is_bad_segment or _CONTROL.search(key) or _RESERVED_END.search(key):
        raise TerminalError(
            f"{key!r} cannot be the key of a stored object: expected segments joined by single slashes, none of them "
            "'.' or '..', without control characters, and no '#' with digits at the end",
            key=key,
        )
    return key


def join_url(base: str, key: str) -> str:
    """The URL of a key below a URL, such that opening it leads to the same place again.

    >>> join_url("s3://lake/shuffle", "7/a b%"), join_url("file:///var", "a b%")
    ('s3://lake/shuffle/7/a b%', 'file:///var/a b%25')
    """
    if base.startswith("file:"):
        key = key.replace("%", "%25")
    return f"{base.removesuffix('/')}/{key}" if key else base
