"""Smaller histories that still go wrong: whatever can be left out is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from histories.history import History

__all__ = ["shrink"]


def shrink(history: History, is_wrong: Callable[[History], bool], *, attempts: int = 400) -> History:
    """The smallest history found that still goes wrong.

    Tries to leave out operations from the end, then any element of any list, then to make numbers zero, and starts
    over after each success, until nothing helps.

    Args:
        history: goes wrong.
        is_wrong: whether a history goes wrong in the same way.
        attempts: how often to try at most.
    """
    document = json.loads(history.to_json())
    left = attempts
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(document):
            if not left:
                return History.from_json(json.dumps(document))
            left -= 1
            if is_wrong(History.from_json(json.dumps(candidate))):
                document = candidate
                progress = True
                break
    return History.from_json(json.dumps(document))


def _smaller(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Documents with less in them, what helps most first."""
    operations = document["operations"]
    for kept in (len(operations) // 2, len(operations) - 1):
        if 0 < kept < len(operations):
            yield {**document, "operations": operations[:kept]}
    yield from ({**document, "operations": each} for each in _without_one(operations))
    yield from ({**document, "shape": each} for each in _simpler_shapes(document["shape"]))
    for index, operation in enumerate(operations):
        for smaller in _less(operation):
            yield {**document, "operations": [*operations[:index], smaller, *operations[index + 1 :]]}


def _simpler_shapes(shape: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("partitioned_by", "identifier_fields", "properties"):
        if shape[key]:
            yield {**shape, key: type(shape[key])()}
    used = {each["column"] for each in shape["partitioned_by"]} | set(shape["identifier_fields"])
    for columns in _without_one(shape["columns"]):
        if columns and used <= {each["name"] for each in columns}:
            yield {**shape, "columns": columns}
    for index, column in enumerate(shape["columns"]):
        if column["required"] and column["name"] not in shape["identifier_fields"]:
            yield {**shape, "columns": _replaced(shape["columns"], index, {**column, "required": False})}
        if column["type"] not in ("int", "long"):
            yield {**shape, "columns": _replaced(shape["columns"], index, {**column, "type": "int"})}


def _less(value: Any) -> Iterator[Any]:
    """A JSON value with an element less somewhere, or a number made zero."""
    if isinstance(value, list):
        yield from _without_one(value)
        for index, element in enumerate(value):
            yield from (_replaced(value, index, smaller) for smaller in _less(element))
    elif isinstance(value, dict):
        for key, element in value.items():
            yield from ({**value, key: smaller} for smaller in _less(element))
    elif isinstance(value, int) and not isinstance(value, bool) and value:
        yield 0


def _without_one(items: list[Any]) -> Iterator[list[Any]]:
    for index in reversed(range(len(items))):
        yield [*items[:index], *items[index + 1 :]]


def _replaced(items: list[Any], index: int, item: Any) -> list[Any]:
    return [*items[:index], item, *items[index + 1 :]]
