"""The URLs of storage, checkpoint and sinks."""

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["is_address", "one_store", "url_below"]

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


_ONE_SCHEME: Final[Mapping[str, str]] = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs",
}  # fmt: skip
"""Schemes that name the same store, with the scheme that is used for it here."""


def url_fault(text: str, *, allow_dynamodb: bool = False) -> str | None:
    """Fault of a URL as the end of a sentence that begins with its key, if any.

    >>> url_fault("/var/icefloe")
    "must be a URL, not a path: write 'file:///var/icefloe'"
    >>> url_fault("s3://lake/icefloe") is None
    True
    """
    if holds_password(text):
        return "holds a password: leave it out and name an Airflow connection that has it"
    if text.startswith("/"):
        return f"must be a URL, not a path: write 'file://{text}'"
    match = _URL.fullmatch(text)
    if match is None or text != text.strip():
        return f"must be a URL such as file:///var/icefloe or s3://bucket/folder, not '{text}'"
    scheme, host, path = match[1].lower(), match[3], match[4]
    if scheme == "dynamodb" and allow_dynamodb:
        return table_fault(text)
    if scheme not in SCHEMES or match[1] != scheme:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        rest = text[len(match[1]) :]
        ours = _ONE_SCHEME.get(scheme, scheme)
        hint = f": write '{ours}{rest}'" if ours in SCHEMES else ""
        return f"has the scheme '{match[1]}', which is none of {known}{hint}"
    if scheme in ("abfs", "abfss") and "@" in (host or "") and _ACCOUNT.search(host or "") is None:
        container = (host or "").partition("@")[0]
        return (
            f"must name a whole host as in {scheme}://{container}@account.dfs.core.windows.net{path}, or none: "
            f"{scheme}://{container}{path}, with account_name and endpoint in the options of its connection"
        )
    return _place_fault(text, scheme, host, path)


def table_fault(text: str) -> str | None:
    """Fault of the URL of a DynamoDB table and its optional prefix, as of `url_fault`.

    >>> table_fault("dynamodb://icefloe/staging") is None, table_fault("s3://lake")
    (True, "must name a table as in dynamodb://icefloe or dynamodb://icefloe/staging, not 's3://lake'")
    """
    if holds_password(text):
        return "holds a password: leave it out and name an Airflow connection that has it"
    forms = "dynamodb://icefloe or dynamodb://icefloe/staging"
    return None if _TABLE.fullmatch(text) else f"must name a table as in {forms}, not '{text}'"


def location_fault(text: str) -> str | None:
    """Fault of a location of a table's files, as of `url_fault`.

    >>> location_fault("s3a://lake/events") is None
    True
    """
    match = _URL.fullmatch(text)
    if match is None or match[1] not in _TABLE_SCHEMES:
        return url_fault(text)
    if holds_password(text):
        return "holds a password: leave it out, a location needs none"
    return _place_fault(text, match[1], match[3], match[4])


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


def _place_fault(text: str, scheme: str, host: str | None, path: str) -> str | None:
    if scheme == "file":
        if host is None and path.startswith("/"):
            return f"must have three slashes: write 'file://{path}'"
        if host or not path.startswith("/"):
            return f"must name an absolute path, as in file:///var/icefloe, not '{text}'"
    elif not host:
        return f"must name a bucket or container after {scheme}://, not '{text}'"
    if any(part in (".", "..") for part in path.split("/")):
        return f"must not have . or .. in its path: write '{text}' out"
    return None


_OF_HOSTS: Final = frozenset({"hdfs", "viewfs", "http", "https"})


def one_store(scheme: str, authority: str) -> tuple[str, str]:
    """Scheme and authority as they compare: hosts without case, buckets and containers with it.

    >>> one_store("S3A", "Lake"), one_store("file", "LocalHost"), one_store("hdfs", "Names:8020")
    (('s3', 'Lake'), ('file', ''), ('hdfs', 'names:8020'))
    >>> one_store("wasbs", "box@Account.blob.core.windows.net")
    ('abfs', 'box@account.dfs.core.windows.net')
    """
    scheme = _ONE_SCHEME.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        return scheme, "" if authority.lower() == "localhost" else authority
    if scheme in _OF_HOSTS:
        return scheme, authority.lower()
    if scheme == "abfs":
        container, at, host = authority.rpartition("@")
        return scheme, f"{container}{at}{host.lower().replace('.blob.core.', '.dfs.core.')}"
    return scheme, authority
