"""The store that a URL names, in one form for all ways to write it."""

from collections.abc import Mapping
from typing import Final

__all__ = ["one_store"]

_ONE_SCHEME: Final[Mapping[str, str]] = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs",
}  # fmt: skip
"""Schemes that name the same store, with the scheme that is used for it here."""
_OF_HOSTS: Final = frozenset({"hdfs", "viewfs", "http", "https"})


def one_store(scheme: str, authority: str) -> tuple[str, str]:
    """Scheme and authority as they compare: names of hosts without case, names of buckets and containers with it.

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
