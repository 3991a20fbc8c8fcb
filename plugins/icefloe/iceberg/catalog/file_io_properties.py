"""The properties that a FileIO needs, without those that open the catalog."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.catalog import TOKEN, URI
from pyiceberg.io import ARROW_FILE_IO, FSSPEC_FILE_IO, PY_IO_IMPL, S3_SIGNER

__all__ = ["file_io_properties"]

_AUTH_MANAGER: Final = "auth.manager"
"""The object that gets the tokens of a REST catalog; the module of its name takes 0.4 s to import."""
_OF_FILES: Final = re.compile(
    r"(adls|client|gcs|hdfs|hf|s3)\..+|buffer-size|py-io-impl|warehouse|DEFAULT_SCHEME|DEFAULT_NETLOC"
)
_OF_SIGNING: Final = re.compile(rf"{URI}|header\..+")


def file_io_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a catalog's FileIO that a FileIO in another process needs.

    A catalog merges its own properties into those of its FileIOs. Among them are its secrets and, for REST, the object
    that gets its tokens, which cannot always be pickled. Reading files needs neither.

    A class of the user's own may read any property, so it keeps all that are text. A FileIO whose requests the catalog
    signs gets the catalog's present token, never the credentials for a new one.

    >>> file_io_properties({"uri": "https://c", "token": "t", "s3.region": "eu-west-1", "warehouse": "lake"})
    {'s3.region': 'eu-west-1', 'warehouse': 'lake'}
    """
    if properties.get(PY_IO_IMPL, ARROW_FILE_IO) not in (ARROW_FILE_IO, FSSPEC_FILE_IO):
        return {key: value for key, value in properties.items() if isinstance(value, str)}
    kept = {key: value for key, value in properties.items() if _OF_FILES.fullmatch(key)}
    return {**kept, **_signing(properties)} if properties.get(S3_SIGNER) else kept


def _signing(properties: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in properties.items() if _OF_SIGNING.fullmatch(key)}
    if (manager := properties.get(_AUTH_MANAGER)) is not None:
        return {**kept, "header.Authorization": manager.auth_header()}
    return {**kept, TOKEN: properties[TOKEN]} if TOKEN in properties else kept
