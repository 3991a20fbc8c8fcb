"""The values that this process hides, and texts without them."""

import base64
import html
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple, Self
from urllib.parse import quote, quote_plus, unquote

__all__ = ["hide", "hide_environment", "names_secret", "quoted", "redacted", "redacted_foreign"]

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
_LONG_PART: Final = 12


class HiddenValue(NamedTuple):
    """A value that is not shown."""

    text: str
    # Hidden in every sentence. Others only in foreign texts: ours need words, such as a namespace named as a warehouse.
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
            with suppress(ValueError):
                yield from _leaves(json.loads(str(value)), path)


def _of_value(key: str, value: str, *, is_secret: bool) -> Iterator[HiddenValue]:
    if _is_harmless(key, value.strip(), is_secret=is_secret):
        return
    scheme = _SCHEME.match(value.strip())
    if (scheme and "://" in value) or _URL_KEY.search(key):
        for each in _of_url(value.strip(), is_secret=is_secret):
            # The client decodes it, and may quote it so.
            yield from dict.fromkeys((each, each._replace(text=unquote(each.text))))
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
            if len(part) >= _LONG_PART:
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
        yield from (HiddenValue(part, is_secret=is_secret) for part in path.split("/") if len(part) >= _LONG_PART)


_SHORTEST: Final = 4
_SHORTEST_CORE: Final = 6
_LONGEST: Final = 6
"""Characters by which a form is found: with so many, few words of a long text begin like a secret by chance."""


@dataclass(frozen=True, slots=True)
class Forms:
    r"""One value, as texts of other libraries and servers may hold it.

    Attributes:
        whole: the value, stripped or not, and as JSON, URLs and HTML write both.
        cores: the part of its base64 that depends on it alone, for each position in a longer encoded text.

    >>> sorted(Forms.of("pass word\n").whole & {"pass word", "pass word\\n", "pass%20word", "pass+word"})
    ['pass word', 'pass word\\n', 'pass%20word', 'pass+word']
    >>> any(core in base64.b64encode(b"user:pass word").decode() for core in Forms.of("pass word\n").cores)
    True
    """

    whole: frozenset[str]
    cores: frozenset[str]

    @classmethod
    def of(cls, value: str) -> Self:
        """The forms of a value; none if too short, so that it would blank out ordinary words."""
        plain = {text for text in (value, value.strip()) if len(text) >= _SHORTEST}
        whole = {write(text) for text in plain for write in _WRITERS}
        return cls(frozenset(whole), frozenset(core for text in plain for core in _base64_cores(text)))


_WRITERS: Final[tuple[Callable[[str], str], ...]] = (
    str,
    lambda text: json.dumps(text)[1:-1],
    quote,
    lambda text: quote(text, safe=""),
    quote_plus,
    html.escape,
)


def _base64_cores(text: str) -> Iterator[str]:
    """The cores of a value: bytes before it, such as ``user:``, move its base64 by 0, 1 or 2 bytes."""
    data = text.encode("utf-8", errors="surrogateescape")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for moved in range(3):
            encoded = encode(bytes(moved) + data).decode().rstrip("=")
            # Three bytes are four characters of six bits. One byte in front fills a character and two bits of the next,
            # two bytes two characters and four bits of the third. Characters that share bits with neighbours differ
            # from text to text.
            first = moved + 1 if moved else 0
            core = encoded[first : len(encoded) - (1 if (moved + len(data)) % 3 else 0)]
            if len(core) >= _SHORTEST_CORE:
                yield from (core, quote(core, safe=""))


HIDDEN: Final = "***"
_MOST_VALUES: Final = 4_096
_BESIDE_WORDS: Final = 12
_PROPERTY: Final = re.compile(r"PYICEBERG_CATALOG__.*?__(.+)", re.IGNORECASE)
_VENDOR: Final = re.compile(r"(?:AWS|AZURE|GOOGLE|GCS|GCLOUD)_.+", re.IGNORECASE)
_BASE64: Final = re.compile(r"[\w+/=%-]+")
# A word begins after an escaped line break or a quoted character, too.
_NO_WORD_BEFORE: Final = r"(?:(?<!\w)|(?<=\\[abfnrtv])|(?<=%[\dA-Fa-f]{2})|(?<=\\x[\dA-Fa-f]{2})|(?<=\\u[\dA-Fa-f]{4}))"

# Tables may hold texts of any length, and a pattern keeps every other thread waiting: each of these looks at a
# character a few times at most, since none goes on from one :// into the next.
_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s:'\"<>]*+:(?!\d{2,5}/)[^@\s:'\"<>]*+(?::(?!//)[^@\s:'\"<>]*+)*+@")
_QUERY: Final = re.compile(r"(://[^\s?:'\"<>)]*+(?::(?!//)[^\s?:'\"<>)]*+)*+\?)([^\s'\"<>)]+)")
_SCHEMES: Final = re.compile(r"\b(bearer|basic|negotiate)(\s+|%20|\+)[A-Za-z0-9._~+/=%-]{4,}", re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    r"((?:token|secret|password|passwd|credentials?|signature|authorization|cookie|api[-_]?key|"
    r"(?:access|account|private|secret)[-_]?key(?:[-_]?id)?|sig)[\"']?\s{0,3}[=:]\s{0,3})"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&)}\]<>\"']+)",
    re.IGNORECASE,
)
# Control characters, separators of lines, directions, and characters without a width. Some shape emoji, and stay where
# they do.
_EMOJI: Final = r"[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001ffff]"
_UNSEEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    rf"|(?<!{_EMOJI})[\ufe0e\ufe0f]|(?<!{_EMOJI})(?<!{_EMOJI}\ufe0f)\u200d|\u200d(?!{_EMOJI})"
)
_LONG: Final = re.compile(r"\S{201,}")
# Pydantic quotes the middle of its input.
_INPUT: Final = re.compile(r"input_value=.*?(?=, input_type=|\]|$)", re.DOTALL)


class _Hidden:
    """The values by last use, bounded because catalogs hand out credentials forever.

    Searching a text of 1 MB for each form of 2,048 values took 3 to 11 s of a core. So values are found by the first
    characters of their forms, which takes 0.1 to 0.3 s.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._forms: OrderedDict[HiddenValue, Forms] = OrderedDict()
        self._starts: dict[int, dict[str, set[HiddenValue]]] = {}

    def add(self, values: Iterable[HiddenValue]) -> None:
        with self._lock:
            for value in values:
                if len(value.text.strip()) < _SHORTEST:
                    continue
                if value in self._forms:
                    self._forms.move_to_end(value)
                else:
                    self._forms[value] = Forms.of(value.text)
                    self._index(value)
            if len(self._forms) > _MOST_VALUES:
                # Half of them at once: the index is made again for those that stay.
                for _ in range(len(self._forms) - _MOST_VALUES // 2):
                    self._forms.popitem(last=False)
                self._starts = {}
                for value in self._forms:
                    self._index(value)

    def forms_for(self, text: str, *, only_secrets: bool) -> list[Forms]:
        found: set[HiddenValue] = set()
        # Of "a secret" the windows are "a secr", " secre" and "secret". Each is looked up in a dictionary, so the cost
        # does not grow with the number of values; map and filter keep the loop in C. Not while the lock is held: a long
        # text would hold up every other thread.
        for length, values in list(self._starts.items()):
            windows = map(text.__getitem__, map(slice, range(len(text) - length + 1), range(length, len(text) + 1)))
            found.update(*map(values.__getitem__, set(filter(values.__contains__, windows))))
        with self._lock:
            return [self._forms[each] for each in found if each in self._forms and (each.is_secret or not only_secrets)]

    def _index(self, value: HiddenValue) -> None:
        forms = self._forms[value]
        for start in {text[:_LONGEST] for text in forms.whole | forms.cores}:
            self._starts.setdefault(len(start), {}).setdefault(start, set()).add(value)


# One for the process: a value must be hidden by code that never saw it, such as a filter of logs or an error of a task
# that was made deep inside another library. It holds nothing that the process does not hold anyway, and ends with it.
_HIDDEN: Final = _Hidden()


def hide(configuration: Mapping[str, object], *, only_secrets: bool = False) -> None:
    """Hides the values of a configuration, before a catalog, store or connection is opened."""
    _HIDDEN.add(hidden_values(configuration, only_secrets=only_secrets))


def hide_environment(environ: Mapping[str, str]) -> None:
    """Hides the environment's values for clients of catalogs and stores."""
    properties = ((_PROPERTY.match(name), value) for name, value in environ.items())
    hide({_as_key(match[1]): value for match, value in properties if match})
    hide({_as_key(name): value for name, value in environ.items() if _VENDOR.match(name)}, only_secrets=True)


def redacted(text: str) -> str:
    """A sentence of ours without any secret.

    >>> hide({"token": "t0p-s3cr3t"})
    >>> redacted("refused: t0p-s3cr3t, at postgresql://me:pw@db")
    'refused: ***, at postgresql://***@db'
    """
    return _USER_INFO.sub(f"{HIDDEN}@", _without(text, only_secrets=True))


def quoted(line: str, *, cuts: bool = True) -> str:
    r"""A line of ours, safe to show: redacted, with escapes for unseen characters.

    Args:
        line: a line break in it is not ours.
        cuts: leaves 200 characters of longer words, those at both ends.

    >>> quoted("branch a\x1b[2K\nb\u202e of table flüge 🛫")
    'branch a\\x1b[2K\\nb\\u202e of table flüge 🛫'
    """
    seen = _UNSEEN.sub(_escaped, redacted(line))
    return _LONG.sub(lambda word: f"{word[0][:150]}...{word[0][-47:]}", seen) if cuts else seen


def redacted_foreign(text: str, *, only_secrets: bool = False) -> str:
    """A text of another library or a server, without values of a configuration and text like them.

    Unseen characters are escapes, but for line breaks and tabs.

    Args:
        only_secrets: the text is for others, too: hides the secrets of this process, and nothing more.

    >>> redacted_foreign("GET https://c.example/v1?warehouse=x: 401, you sent 'Authorization: Bearer abcdefgh'")
    "GET https://c.example/v1?***: 401, you sent 'Authorization: ***'"
    """
    text = _without(text, only_secrets=only_secrets)
    if only_secrets:
        return text
    text = _QUERY.sub(_without_query, _USER_INFO.sub(f"{HIDDEN}@", text))
    text = _INPUT.sub(f"input_value={HIDDEN}", text)
    text = _ASSIGNED.sub(rf"\1{HIDDEN}", _SCHEMES.sub(HIDDEN, text))
    return _UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" else _escaped(found), text.replace("\r\n", "\n"))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _as_key(variable: str) -> str:
    # PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID is the property s3.access-key-id of the catalog lake.
    return variable.lower().replace("__", ".").replace("_", "-")


def _without_query(match: re.Match[str]) -> str:
    address, query = match.groups()
    shown = query.rstrip(":,;.")
    return f"{address}{HIDDEN if shown else ''}{query[len(shown) :]}"


def _without(text: str, *, only_secrets: bool) -> str:
    forms = _HIDDEN.forms_for(text, only_secrets=only_secrets)
    found = {form for each in forms for form in each.whole if form in text}
    cores = {core for each in forms for core in each.cores if core in text}
    # The longest first: a form inside of a longer one would leave the rest of the longer one to be read.
    for form in sorted(found, key=len, reverse=True):
        text = text.replace(form, HIDDEN) if len(form) >= _BESIDE_WORDS else re.sub(_as_word(form), HIDDEN, text)
    if cores:
        text = _BASE64.sub(lambda run: HIDDEN if any(core in run[0] for core in cores) else run[0], text)
    return text


def _as_word(form: str) -> str:
    """A pattern for a short form as a word: ``test`` is not found in ``latest``."""
    before = _NO_WORD_BEFORE if re.match(r"\w", form[0]) else ""
    return before + re.escape(form) + (r"(?!\w)" if re.match(r"\w", form[-1]) else "")
