"""Nobody quotes an error of another library as it stands."""

import ast
from collections.abc import Iterator

from support.pages.blocks import ROOT

SOURCES = sorted((ROOT / "plugins" / "icefloe").rglob("*.py"))
OURS = {"IcefloeError", "TerminalError", "TransientError", "KeyMissingError", "UndecodableError"}


def quoted(tree: ast.Module) -> Iterator[int]:
    """The lines where the text of what was caught goes into an f-string."""
    for handler in (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name):
        caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else set()
        if caught & {"Exception", "BaseException", "OSError"} and not caught & OURS:
            for node in ast.walk(handler):
                if (
                    isinstance(node, ast.FormattedValue)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == handler.name
                ):
                    yield node.lineno


def test_errors_of_other_libraries_are_quoted_by_one_line() -> None:
    places = [f"{path.relative_to(ROOT)}:{line}" for path in SOURCES for line in quoted(ast.parse(path.read_text()))]
    assert not places, places
