"""The secret values of a configuration, by key and form."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote

__all__ = ["names_secret"]

_SECRET_KEY: Final = re.compile(
    r"token|secret|passw|passphrase|passcode|pwd|credential|(^|[._-])(sas|sig|pass|auth|cookie|header|key)([._-]|$)|signature|"
    r"authorization|(access|account|api|encryption|private|secret)[._-]?key([._-]|$)|connection[._-]?string|service[._-]?account|"
    r"(^|[._-])(jaas|pem)([._-]|$)|oauthbearer[._-]config"
)
# The key names a secret, but the value is none: an id, a file, a class, an address, a number of seconds.
_HARMLESS_KEY: Final = re.compile(
    r"((^|[._-])((?<!session[._-])id|uri|url|endpoint|path|file|location|provider|type|impl|name|user|username|login|"
    r"scope|audience|enabled|interval|[a-z]*(timeout|ratio)|expires?|at|ms|alias|issuer|algorithm|class|length|ttl|refresh)|"
    r"^(service[._-]account|google[._-]application[._-]credentials)|"
    r"x-iceberg-access-delegation|x-goog-user-project|polaris-realm|user-agent|content-type|accept)$"
)
_HARMLESS_VALUE: Final = re.compile(r"true|false|none|null|auto|catalog|default|require|[0-9.]{1,6}", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9.]+")
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z]+)+-?[0-9]*|auto")
_CLASS: Final = re.compile(r"[A-Za-z_]\w{0,40}(\.[A-Za-z_]\w{0,40})+")
_TYPES: Final = frozenset({
    "basic", "bigquery", "custom", "dynamodb", "entra", "glue", "google", "hive", "in-memory", "legacyoauth2", "noop",
    "oauth2", "rest", "sql",
})  # fmt: skip
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/{0,3}")
_PLACES: Final = frozenset({"abfs", "abfss", "file", "gs", "hdfs", "memory", "s3", "s3a", "sqlite", "wasb", "wasbs"})
"""Schemes whose paths are the places of data, which an error must be able to name."""
_ACCOUNTS: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_URL_KEY: Final = re.compile(r"(^|[._-])(ur[il]|endpoint|host|proxy)([._-]|$)|endpoint$")
_LONG: Final = 12


@dataclass(frozen=True, slots=True)
class HiddenValue:
    """A value that is not shown.

    Attributes:
        is_secret: hidden in every sentence. Other values are hidden only in the text of other libraries, because our
            sentences need the words: a warehouse may have the name of the namespace.
    """

    text: str
    is_secret: bool


def hidden_values(configuration: Mapping[str, object], *, only_secrets: bool = False) -> Iterator[HiddenValue]:
    """The values of a configuration that errors must not show, nested ones too.

    Only harmless forms are shown: booleans, types, regions and classes by their keys, and the scheme and host of a URL.

    Args:
        only_secrets: the configuration holds more than secrets, as the properties of a table do.

    >>> found = hidden_values({"type": "rest", "credential": "id:s3cr3t", "uri": "https://c.example.com?sig=abcdef"})
    >>> [value.text for value in found if value.is_secret]
    ['id:s3cr3t', 's3cr3t', 'abcdef']
    """
    for key, value in _leaves(configuration, ""):
        is_secret = names_secret(key)
        found = _of_value(key, value, is_secret=is_secret)
        if not is_secret and only_secrets and "access-key-id" not in key:
            # A URL may hold a secret under any key.
            found = (each for each in found if each.is_secret)
        yield from found


def names_secret(key: str) -> bool:
    """True if a key alone says that its value is a secret.

    >>> names_secret("header.Cookie"), names_secret("ssl.key.pem"), names_secret("ssl.key.location")
    (True, True, False)
    """
    key = key.lower()
    return _SECRET_KEY.search(key) is not None and _HARMLESS_KEY.search(key) is None


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(below, f"{path}.{key}".lower().lstrip("."))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for below in value:
            yield from _leaves(below, path)
    elif isinstance(value, bytes):
        yield path, value.decode("utf-8", errors="replace")
    elif value is not None:
        yield path, str(value)
        if str(value).lstrip().startswith("{"):
            yield from _leaves(_parsed(str(value)), path)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _of_value(key: str, value: str, *, is_secret: bool) -> Iterator[HiddenValue]:
    if _is_harmless(key, value.strip(), is_secret=is_secret):
        return
    scheme = _SCHEME.match(value.strip())
    if (scheme and "://" in value) or _URL_KEY.search(key):
        for each in _of_url(value.strip(), is_secret=is_secret):
            # The client decodes it, and may quote it so.
            yield from dict.fromkeys((each, replace(each, text=unquote(each.text))))
        if scheme and "://" in value:
            return
    yield HiddenValue(value, is_secret)
    if key.endswith("impl"):
        yield HiddenValue(value.rpartition(".")[0], is_secret)
    if is_secret:
        yield from _parts(key, value)


def _is_harmless(key: str, value: str, *, is_secret: bool) -> bool:
    if _HARMLESS_VALUE.fullmatch(value) or (not is_secret and _NUMBER.fullmatch(value)):
        return True
    match re.split("[._-]", key)[-1]:
        case "region":
            return _REGION.fullmatch(value) is not None
        case "impl" | "provider":
            return _CLASS.fullmatch(value) is not None
        case "type":
            return value.lower() in _TYPES
        case _:
            return False


def _parts(key: str, value: str) -> Iterator[HiddenValue]:
    """The parts of ``id:secret``, ``Bearer token`` or ``AccountName=a;AccountKey=b``."""
    if "credential" in key or "auth" in key:
        first, colon, rest = value.strip().partition(":")
        if colon:
            yield from (HiddenValue(first, is_secret=False), HiddenValue(rest, is_secret=True))
    for word in re.split(r"[\s;,]+", value):
        _, _, assigned = word.partition("=")
        for part in {word, assigned} - {value}:
            if len(part) >= _LONG:
                yield HiddenValue(part, is_secret=True)


def _of_url(url: str, *, is_secret: bool) -> Iterator[HiddenValue]:
    """The parts of a URL except scheme and host; of broken URLs too, in which a password may look like a port."""
    match = _SCHEME.match(url) if "://" in url else None
    scheme = match[1].lower().partition("+")[0] if match else ""
    rest = url[match.end() :] if match else url
    # The last @, because a password may hold one that nobody escaped.
    userinfo, at, address_and_query = rest.rpartition("@")
    if at and not (scheme in _ACCOUNTS and ":" not in userinfo):
        user, colon, password = userinfo.partition(":")
        yield HiddenValue(user, is_secret=not colon)
        if colon:
            yield HiddenValue(password, is_secret=True)
            yield from (HiddenValue(part, is_secret=True) for part in re.split(r"[:/?#@\[\]]", password))
    address, _, query = re.sub("#", "?", address_and_query).partition("?")
    if query:
        yield HiddenValue(query, is_secret=False)
    for pair in re.split("[?&;#]", query):
        name, _, value = pair.rpartition("=")
        if not _is_harmless(name.lower(), value, is_secret=False):
            yield HiddenValue(value, is_secret=not name or names_secret(name))
    if scheme not in _PLACES:
        path = address[address.find("/") :] if "/" in address else ""
        yield HiddenValue(path, is_secret=is_secret)
        yield from (HiddenValue(part, is_secret=is_secret) for part in path.split("/") if len(part) >= _LONG)
