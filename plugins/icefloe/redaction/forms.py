"""The forms of a value in the text of other libraries and servers."""

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import quote, quote_plus, unquote

SHORTEST: Final = 4
"""Values of fewer characters are not hidden: they would blank out ordinary words."""
_SHORTEST_CORE: Final = 6
_SHORTEST_CUT: Final = 16
_CUT: Final = 10
_FEWEST_CHARACTERS: Final = 5
_PERCENT: Final = re.compile("%[0-9A-F]{2}")


@dataclass(frozen=True, slots=True)
class Forms:
    """One value, as texts may hold it.

    Attributes:
        whole: the value itself, without its line break, escaped once or twice, quoted for URLs and for HTML.
        cores: the part of its base64 that depends on it alone, for each position in a longer encoded text.
        cut: its first and last characters, if it is long: other libraries shorten the values that they quote.
    """

    whole: frozenset[str]
    cores: frozenset[str]
    cut: tuple[str, ...]

    @classmethod
    def of(cls, value: str) -> Self:
        r"""The forms of a value.

        >>> forms = Forms.of("pass word\n")
        >>> sorted(forms.whole & {"pass word", "pass word\\n", "pass%20word", "pass+word", "pass+word%0A"})
        ['pass word', 'pass word\\n', 'pass%20word', 'pass+word', 'pass+word%0A']
        >>> "Pass%2fWord" in Forms.of("Pass/Word").whole
        True
        >>> any(core in base64.b64encode(b"user:pass word").decode() for core in forms.cores)
        True
        """
        stripped = value.strip()
        plain = {value, stripped, " ".join(value.split()), unquote(stripped), *map(str.strip, value.splitlines())}
        plain = {text for text in plain if len(text) >= SHORTEST}
        whole = {form for text in plain for form in _written(text)}
        cores = {core for text in plain for core in _base64_cores(text)}
        is_long = len(stripped) >= _SHORTEST_CUT
        cut = tuple(end for end in (stripped[:_CUT], stripped[-_CUT:]) if is_long and _is_telling(end))
        return cls(frozenset(whole), frozenset(cores), cut)

    @property
    def texts(self) -> frozenset[str]:
        """All forms of the value that a text may hold."""
        return self.whole | self.cores | frozenset(self.cut)


def _written(text: str) -> Iterator[str]:
    yield text
    once = [write(text) for write in _WRITERS]
    yield from once
    for written in once[: len(_ESCAPES)]:
        yield from (write(written) for write in _ESCAPES)
    for quoted in (quote(text), quote(text, safe=""), quote_plus(text)):
        yield from (quoted, _PERCENT.sub(lambda code: code[0].lower(), quoted), quote(quoted))
        if "%" in quoted:
            yield quoted.lower()


def _escaped(text: str) -> str:
    return repr(text)[1:-1]


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _in_unicode_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _in_html(text: str) -> str:
    return html.escape(text)


_ESCAPES: Final[tuple[Callable[[str], str], ...]] = (_escaped, _in_json, _in_unicode_json)
_WRITERS: Final[tuple[Callable[[str], str], ...]] = (*_ESCAPES, _in_html)


def _base64_cores(text: str) -> Iterator[str]:
    """The cores of a value: bytes in front of it, such as ``user:``, move its base64 by 0, 1 or 2 bytes."""
    data = text.encode("utf-8", errors="surrogateescape")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(data).decode().rstrip("=")
        for moved in range(3):
            encoded = encode(bytes(moved) + data).decode().rstrip("=")
            # Three bytes are four characters of six bits. One byte in front fills a character and two bits of the next,
            # two bytes two characters and four bits of the third. Characters that share bits with neighbours differ
            # from text to text.
            first = moved + 1 if moved else 0
            last = len(encoded) - (1 if (moved + len(data)) % 3 else 0)
            core = encoded[first:last]
            if len(core) >= _SHORTEST_CORE:
                yield from (core, quote(core, safe=""))


def _is_telling(end: str) -> bool:
    return len(set(end)) >= _FEWEST_CHARACTERS
