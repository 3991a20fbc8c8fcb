"""The URLs of storage, checkpoint and sinks."""

import os
import posixpath
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from icefloe.storage.store import Store, one_store

__all__ = ["is_address", "url_below"]

SCHEMES: Final = ("file", "s3", "gs", "abfs", "abfss", "memory")
"""The schemes that storage knows."""
_TABLE_SCHEMES: Final = (
    "file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "oss", "hdfs", "viewfs", "hf",
)  # fmt: skip
"""The schemes that PyIceberg reads tables from."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//([^/]*))?(.*)", re.DOTALL)
_TABLE: Final = re.compile(r"dynamodb://[A-Za-z0-9_.-]{3,255}(/(?!\.\.?(/|$))[A-Za-z0-9_.-]+)*/?")
# A password may hold slashes; a port before a slash is no password. No match goes on into the next ://, which would
# take forever.
_PASSWORD: Final = re.compile(
    r"://[^/@\s:]*+:(?!@|\d{2,5}/)[^@\s:]*+(?::(?!//)[^@\s:]*+)*+@|[?&;](password|pwd|secret|token|sig|signature)=",
    re.IGNORECASE,
)
_ACCOUNT: Final = re.compile(r"@[^.]+\.((dfs|blob)\.core\.windows\.net|(dfs|blob)\.fabric\.microsoft\.com)$")
"""The hosts that obstore knows, at the end of the name of an account."""
_ADDRESS: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][\w+.-]*)://)?(?:\[[0-9A-Fa-f:.]+\]|\w[\w.-]*)(?::(?P<port>[0-9]{1,5}))?(?P<path>/[\w.~%/+-]*)?",
    re.ASCII,
)
_PORTS: Final = 65_536


def url_fault(text: str, *, allow_dynamodb: bool = False) -> str | None:
    """Fault of a URL as the end of a sentence that begins with its key, if any.

    >>> url_fault("s3://lake/icefloe") is None, url_fault("dynamodb://icefloe", allow_dynamodb=True) is None
    (True, True)
    """
    if allow_dynamodb and text.startswith("dynamodb:"):
        return table_fault(text)
    match = _URL.fullmatch(text)
    host = "" if match is None else match[3] or ""
    is_whole = not text.startswith("abfs") or "@" not in host or _ACCOUNT.search(host) is not None
    scheme = "" if match is None else match[1]
    is_of_package = scheme not in SCHEMES and Store.of_package(scheme) is not None
    return _place_fault(text, (*SCHEMES, scheme) if is_of_package else SCHEMES, is_usable=is_whole)


def table_fault(text: str) -> str | None:
    """Fault of the URL of a DynamoDB table and its optional prefix, as of `url_fault`.

    >>> table_fault("dynamodb://icefloe/staging") is None, table_fault("s3://lake")
    (True, "must name a table as in dynamodb://icefloe or dynamodb://icefloe/staging, not 's3://lake'")
    """
    if holds_password(text):
        return _LEAVE_IT_OUT
    forms = "dynamodb://icefloe or dynamodb://icefloe/staging"
    return None if _TABLE.fullmatch(text) else f"must name a table as in {forms}, not '{text}'"


def location_fault(text: str) -> str | None:
    """Fault of a location of a table's files, as of `url_fault`.

    >>> location_fault("s3a://lake/events") is None
    True
    """
    return _place_fault(text, _TABLE_SCHEMES)


_LEAVE_IT_OUT: Final = "holds a password: leave it out and name an Airflow connection that has it"


def _place_fault(text: str, schemes: Sequence[str], *, is_usable: bool = True) -> str | None:
    if holds_password(text):
        return _LEAVE_IT_OUT
    match = _URL.fullmatch(text)
    if match is not None and text == text.strip() and match[1] in schemes and is_usable:
        host, path = match[3], match[4]
        has_place = host == "" and path.startswith("/") if match[1] == "file" else bool(host)
        if has_place and not {".", ".."} & set(path.split("/")):
            return None
    known = ", ".join(f"{scheme}://" for scheme in schemes if scheme != "file")
    return (
        "must be a URL: file:/// and an absolute path, or a bucket or container (of Azure alone, or with its whole "
        f"host as in box@account.dfs.core.windows.net) after {known}; without . and .. in its path, not '{text}'"
    )


def is_address(text: str, *schemes: str, is_list: bool = False) -> bool:
    """True if a text is a server's address alone: errors quote no other text, it may hold a password.

    Args:
        text: a host, with a port or without.
        schemes: one comes first, and a path may come last; none: neither does, as for Kafka's brokers.
        is_list: True if commas may join several addresses.

    >>> [is_address(text, "https") for text in ("https://search:9200/below", "https://[::1]", "https://me:pw@search")]
    [True, True, False]
    >>> is_address("a:9092,b:9092", is_list=True), is_address("a:port")
    (True, False)
    """
    matches = [_ADDRESS.fullmatch(each.strip()) for each in (text.split(",") if is_list else [text])]
    return all(
        match is not None
        and (match["scheme"] in schemes if schemes else not (match["scheme"] or match["path"]))
        and 0 < int(match["port"] or 1) < _PORTS
        for match in matches
    )


def url_below(base: str, *parts: str) -> str:
    """A URL below another one.

    >>> url_below("s3://lake/", "shuffle", "flights"), url_below("file:///", "x")
    ('s3://lake/shuffle/flights', 'file:///x')
    """
    return "/".join((base.removesuffix("/"), *parts))


def holds_password(text: str) -> bool:
    """True if a URL carries a password or a token.

    >>> holds_password("postgresql://ice:floe@db/x"), holds_password("abfss://box@account.dfs.core.windows.net/x")
    (True, False)
    """
    return _PASSWORD.search(text) is not None


def place_parts(url: str) -> tuple[str, ...]:
    """A URL in parts that are equal for equal places: a place inside another begins with its parts.

    >>> place_parts("S3A://Lake//a/./b/../c%20d/"), place_parts("abfss://box@account.dfs.core.windows.net/x")
    (('s3', 'Lake', 'a', 'c d'), ('abfs', 'box@account', 'x'))
    >>> place_parts("file://localhost/nowhere/a"), place_parts("/nowhere/a/")
    (('file', '', 'nowhere', 'a'), ('file', '', 'nowhere', 'a'))
    """
    match = _URL.fullmatch(url)
    written, host, path = ("file", "", url) if match is None else (match[1], match[3] or "", match[4])
    scheme, authority = one_store(written, host)
    path = posixpath.normpath("/" + unquote(path, errors="surrogateescape").lstrip("/"))
    if scheme == "file":
        # A symbolic link leads to the same files by another name.
        authority, path = "", os.path.realpath(path)
    elif scheme == "abfs":
        authority = authority.partition(".")[0]
    return (scheme, authority, *filter(None, path.split("/")))
