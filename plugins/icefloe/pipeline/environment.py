"""``${NAME}`` in a pipeline file."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from icefloe.errors import ExpandedText
from icefloe.pipeline.yaml_file import KeyPath
from icefloe.redaction.hidden import hide

__all__ = ["expand", "has_reference"]

REFERENCE: Final = ExpandedText.REFERENCE
SHOWN: Final[frozenset[KeyPath]] = frozenset({
    # Places, which an error must name.
    ("table",), ("storage",), ("checkpoint",), ("coordination",), ("allowed_locations",), ("catalog", "warehouse"),
    ("changelog", "path"), ("sink", "path"), ("sink", "dead_letters", "path"),
    # Words and numbers of a closed set. No error quotes another value.
    ("pin",), ("storage_is_shared",), ("changes",), ("shuffle",), ("max_scan_bytes",),
    ("on_summary_mismatch",), ("engine",), ("changelog", "keep"), ("sink", "format"),
    ("sink", "target_file_bytes"), ("sink", "bulk_bytes"), ("sink", "transaction_bytes"),
    ("sink", "purge_after"),
})  # fmt: skip
"""The keys whose values of the environment are shown; those of all other keys are hidden, also of keys to come."""
_BETWEEN: Final = r"\s,;/@?#&=:'\"()\[\]\\"
_WORD: Final = re.compile(rf"(?:\$\{{\w+\}}|[^{_BETWEEN}])+")
"""A word of a text as it is written: a reference is never cut."""
_PART: Final = re.compile(rf"(?:\w+://)?([^{_BETWEEN}]+)")


def has_reference(value: object) -> bool:
    """True if a value is text that names an environment variable.

    >>> has_reference("s3://${BUCKET}/x"), has_reference("$${BUCKET}"), has_reference(7)
    (True, False, False)
    """
    return isinstance(value, str) and any(match[1] for match in REFERENCE.finditer(value))


def expand(data: object, environ: Mapping[str, str]) -> Any:
    """The data with every reference replaced; a variable that is not set stays as written.

    >>> expand({"path": "s3://${BUCKET}/$${x}", "steps": 3}, {"BUCKET": "lake"})
    {'path': 's3://lake/${x}', 'steps': 3}
    """
    if isinstance(data, str):
        return REFERENCE.sub(lambda match: environ.get(match[1], match[0]) if match[1] else "${", data)
    if isinstance(data, dict):
        return {key: expand(value, environ) for key, value in data.items()}
    if isinstance(data, list):
        return [expand(value, environ) for value in data]
    return data


def named_variables(data: object, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the data names.

    >>> named_variables({"path": "s3://${BUCKET}/x"}, {"BUCKET": "lake", "HOME": "/root"})
    {'BUCKET': 'lake'}
    """
    found = (match[1] for _, text in texts_of(data) for match in REFERENCE.finditer(text))
    return {name: environ[name] for name in found if name in environ}


def hide_values(data: object, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Hides words with values of the environment, unless the file or a place shows them anyway; returns them."""
    shown: set[str] = set()
    words: list[str] = []
    for path, text in texts_of(data):
        if has_reference(text) and not any(path[: len(key)] == key for key in SHOWN):
            words += filter(has_reference, _WORD.findall(text))
        else:
            value = expand(text, environ)
            shown.update(re.findall(r"[\w-]+", value), _PART.findall(value))
    hidden: set[str] = set()
    for word in words:
        if not {environ.get(match[1]) for match in REFERENCE.finditer(word) if match[1]} <= shown:
            value = expand(word, environ)
            # A filter has wildcards. Other libraries name a host or a user alone, and hosts in small letters.
            hidden |= {
                form for part in (value, value.strip("%_"), *_PART.findall(value)) for form in (part, part.lower())
            }
    found = tuple(sorted(hidden - shown))
    hide({"secret": found})
    return found


def texts_of(data: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Each text in the data, with its place."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from texts_of(value, (*path, key))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield from texts_of(value, (*path, position))
