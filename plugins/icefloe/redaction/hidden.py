"""The values that this process hides, and texts without them."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, Final

from icefloe.redaction.configuration import HiddenValue, hidden_values
from icefloe.redaction.forms import SHORTEST, Forms

__all__ = ["HIDDEN", "hide", "hide_environment", "redacted", "redacted_foreign"]

HIDDEN: Final = "***"
_MOST_VALUES: Final = 2_048
_BESIDE_WORDS: Final = 12
_VARIABLE: Final = re.compile(r"(?:PYICEBERG_CATALOG__.*?__|(?=(?:AWS|AZURE|GOOGLE|GCS|GCLOUD)_))(.+)", re.IGNORECASE)
_BASE64: Final = r"[\w+/=%-]*"

_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s'\"<>]+:[^/@\s'\"<>]*@")
_QUERY: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s?'\"<>)]*)\?[^\s'\"<>)]+?(?=[:,;.]*(?:[\s'\"<>)]|$))")
_SCHEMES: Final = re.compile(r"\b(bearer|basic|negotiate)(\s+|%20|\+)[A-Za-z0-9._~+/=%-]{4,}", re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    r"((?:token|secret|password|passwd|credentials?|signature|authorization|cookie|api[-_]?key|"
    r"(?:access|account|private|secret)[-_]?key(?:[-_]?id)?|sig)[\"']?\s{0,3}[=:]\s{0,3})"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&)}\]<>\"']+)",
    re.IGNORECASE,
)
# Pydantic quotes the middle of what it was given.
_INPUT: Final = re.compile(r"input_value=.*?(?=, input_type=|\]|$)", re.DOTALL)


class _Hidden:
    """Values in the order in which they were last used. Bounded: catalogs hand out credentials for ever."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._forms: dict[bool, OrderedDict[str, Forms]] = {True: OrderedDict(), False: OrderedDict()}

    def add(self, values: Iterable[HiddenValue]) -> None:
        with self._lock:
            for value in values:
                if len(value.text.strip()) < SHORTEST:
                    continue
                known = self._forms[value.is_secret]
                if value.text in known:
                    known.move_to_end(value.text)
                else:
                    known[value.text] = Forms.of(value.text)
                if len(known) > _MOST_VALUES:
                    known.popitem(last=False)

    def forms(self, *, is_secret: bool) -> list[Forms]:
        with self._lock:
            return list(self._forms[is_secret].values())


# One for the process: a value must be hidden by code that never saw it, such as a filter of logs or an error of a task
# that was made deep inside another library. It holds nothing that the process does not hold anyway, and ends with it.
_HIDDEN: Final = _Hidden()


def hide(configuration: Mapping[str, Any], *, only_secrets: bool = False) -> None:
    """Hides the values of a configuration from now on; see `hidden_values`.

    Whoever opens a catalog, a store or a connection calls this first.
    """
    _HIDDEN.add(hidden_values(configuration, only_secrets=only_secrets))


def hide_environment(environ: Mapping[str, str]) -> None:
    """Hides what the environment holds for the clients of catalogs and stores."""
    found = ((_VARIABLE.match(name), value) for name, value in environ.items())
    hide({match[1].lower().replace("__", ".").replace("_", "-"): value for match, value in found if match})


def redacted(text: str) -> str:
    """A sentence of ours without any secret.

    >>> hide({"token": "t0p-s3cr3t"})
    >>> redacted("refused: t0p-s3cr3t, at postgresql://me:pw@db")
    'refused: ***, at postgresql://***@db'
    """
    return _USER_INFO.sub(f"{HIDDEN}@", _without(text, _HIDDEN.forms(is_secret=True), beside_words=False))


def redacted_foreign(text: str) -> str:
    """What another library or a server said, without any value of a configuration and without what looks like one.

    >>> redacted_foreign("GET https://c.example/v1?warehouse=x: 401, you sent 'Authorization: Bearer abcdefgh'")
    "GET https://c.example/v1?***: 401, you sent 'Authorization: ***'"
    """
    text = _without(redacted(text), _HIDDEN.forms(is_secret=False), beside_words=True)
    text = _QUERY.sub(rf"\1?{HIDDEN}", text)
    text = _INPUT.sub(f"input_value={HIDDEN}", text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", _SCHEMES.sub(HIDDEN, text))


def _without(text: str, hidden: Iterable[Forms], *, beside_words: bool) -> str:
    found: set[str] = set()
    cores: set[str] = set()
    cut: set[str] = set()
    for forms in hidden:
        found.update(form for form in forms.whole if form in text)
        cores.update(core for core in forms.cores if core in text)
        cut.update(end for end in forms.cut if end in text)
    for form in sorted(found, key=len, reverse=True):
        is_word = beside_words and len(form) < _BESIDE_WORDS
        text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text) if is_word else text.replace(form, HIDDEN)
    for core in sorted(cores, key=len, reverse=True):
        text = re.sub(_BASE64 + re.escape(core) + _BASE64, HIDDEN, text)
    for end in sorted(cut):
        text = re.sub(rf"[\w+/=%.~-]*{re.escape(end)}[\w+/=%.~-]*", HIDDEN, text)
    return text
