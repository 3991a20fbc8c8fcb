"""Keys of stored objects: relative paths with ``/`` between their segments."""

import re
from typing import Final

from icefloe.errors import TerminalError

__all__ = ["join_url"]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NO_TEXT: Final = re.compile(r"[\ud800-\udfff]")
"""Bytes of a name on disk that are not UTF-8, as Python has them."""
# A local store keeps a value that is still being written under a name that ends so; no key may look like that anywhere.
_RESERVED_END: Final = re.compile(r"#\d+\Z")


def is_unfinished(key: str) -> bool:
    """True for the name of an unfinished write, which is no key.

    >>> is_unfinished("7.json#1"), is_unfinished("7#.json")
    (True, False)
    """
    return _RESERVED_END.search(key) is not None


def is_foreign(name: str) -> bool:
    r"""True for the name of a file or folder that no key leads to.

    >>> is_foreign("7.json"), is_foreign("7\n"), is_foreign(b"\xff".decode(errors="surrogateescape"))
    (False, True, True)
    """
    return _CONTROL.search(name) is not None or _NO_TEXT.search(name) is not None


def check_key(key: str) -> str:
    """The key, if every kind of store can hold it.

    >>> check_key("offsets/7.json")
    'offsets/7.json'
    """
    if is_unfinished(key):
        raise TerminalError(
            f"{key!r} cannot be the key of a stored object: '#' and digits at the end mark an unfinished write",
            key=key,
        )
    return check_folder(key)


def check_folder(folder: str) -> str:
    if _CONTROL.search(folder) or any(segment in ("", ".", "..") for segment in folder.split("/")):
        raise TerminalError(
            f"{folder!r} cannot be the key of a stored object or a folder of them: expected segments joined by single "
            "slashes, none of them '.' or '..', and no control characters",
            key=folder,
        )
    return folder


def join_url(base: str, key: str) -> str:
    """The URL of a key below a URL; opening it leads to the same place again.

    >>> join_url("s3://lake/shuffle", "7/a b%"), join_url("file:///var", "a b%")
    ('s3://lake/shuffle/7/a b%', 'file:///var/a b%25')
    """
    if base.startswith("file:"):
        key = key.replace("%", "%25")
    return f"{base.removesuffix('/')}/{key}" if key else base
