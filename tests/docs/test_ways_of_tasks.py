"""The table that leads from a red task to its code follows the calls that are there."""

import ast
import re
from functools import cache

import pytest

from support.pages.blocks import ROOT

LIBRARY = ROOT / "plugins" / "icefloe"
SPARK_JOBS = ROOT / "spark_jobs"
CONTRACTS = ("sinks/sink",)
"""Modules whose classes others implement: a call of the one leads to the other."""
MODULES = {path.relative_to(LIBRARY).with_suffix("").as_posix(): path for path in LIBRARY.rglob("*.py")}


def rows() -> list[list[str]]:
    """The rows of the table, each a red task, the files on its way, and those that raise most of its errors."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## From a red task to its code\n")[2].partition("\n## ")[0]
    _, *found = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return found


def module_of(name: str) -> str | None:
    """The module that a row names by its path or by the end of it; None if it names a function."""
    found = [module for module in MODULES if module == name or module.endswith(f"/{name}")]
    assert len(found) < 2, f"{name} may be any of {found}"
    return found[0] if found else None


@cache
def imported_by(module: str) -> frozenset[str]:
    """The modules that a module imports, at its top or inside its functions."""
    nodes = [node for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom) and node.module]
    names = {node.module for node in nodes} | {f"{node.module}.{each.name}" for node in nodes for each in node.names}
    return frozenset(name.removeprefix("icefloe.").replace(".", "/") for name in names)


def functions_of(module: str) -> set[str]:
    return {node.name for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef)}


def begun_by_spark() -> frozenset[str]:
    """The modules with which a Spark application begins, in a process of its own."""
    names = re.findall(r"from icefloe\.([\w.]+) import", "".join(p.read_text() for p in SPARK_JOBS.glob("*.py")))
    return frozenset(name.replace(".", "/") for name in names)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_each_file_on_the_way_of_a_task_is_called_by_one_before_it(row: list[str]) -> None:
    task, files, _ = row
    passed: list[str] = []
    for name in re.findall(r"`([\w/]*\w)`", files):
        module = module_of(name)
        if module is None:
            assert name in functions_of(passed[-1]), f"{task}: {passed[-1]} has no function {name}"
            continue
        calls = [each for each in passed if module in imported_by(each)]
        implements = imported_by(module) & {*CONTRACTS} & {*passed}
        begins = not passed or module in begun_by_spark()
        assert calls or implements or begins, f"{task}: none of {passed} imports {module}"
        passed.append(module)


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_the_files_of_errors_are_there_and_have_errors(row: list[str]) -> None:
    for name in re.findall(r"`([\w/]+)`", row[2]):
        module = module_of(name)
        places = [*(LIBRARY / name).rglob("*.py")] if module is None else [MODULES[module]]
        texts = [path.read_text(encoding="utf-8") for path in places]
        assert any(re.search(r"Error(\.\w+)?\(", text) for text in texts), f"{name} raises nothing"
