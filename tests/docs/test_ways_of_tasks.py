"""The table that leads from a red task to its code follows the imports that are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from support.pages.blocks import ROOT

LIBRARY = ROOT / "plugins" / "icefloe"
BEGUN_BY_SPARK = "engines/spark/"
"""Begins in a process of its own, so that no room imports it."""


def rows() -> list[list[str]]:
    """The rows of the table, each a red task, the rooms on its way, and the rooms that raise most of its errors."""
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## From a red task to its code\n")[2].partition("\n## ")[0]
    _, *found = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return found


def rooms(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+/(?:[a-z_]+/)*)`", cell)


def sources(room: str) -> list[Path]:
    return sorted((LIBRARY / room).rglob("*.py"))


@cache
def imported_by(room: str) -> frozenset[str]:
    """The modules that a room imports, as paths, at the top of its files or inside functions."""
    nodes = [node for path in sources(room) for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    names = {f"{node.module}.{each.name}" for node in froms for each in node.names}
    return frozenset(name.removeprefix("icefloe.").replace(".", "/") for name in names)


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_each_room_on_the_way_of_a_task_is_called_by_one_before_it(row: list[str]) -> None:
    task, way, _ = row
    passed: list[str] = []
    for room in rooms(way):
        called = any(name.startswith(room) for before in passed for name in imported_by(before))
        inside = any(room.startswith(before) for before in passed)
        first = not passed and bool(sources(room))
        assert called or inside or first or room == BEGUN_BY_SPARK, f"{task}: none of {passed} imports {room}"
        passed.append(room)


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_the_rooms_of_errors_are_there_and_have_errors(row: list[str]) -> None:
    for room in rooms(row[2]):
        texts = [path.read_text(encoding="utf-8") for path in sources(room)]
        assert any(re.search(r"Error(\.\w+)?\(", text) for text in texts), f"{room} raises nothing"
