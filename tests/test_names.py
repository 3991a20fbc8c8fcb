"""Names: each module, class and function of the library has one of its own, in the words of the glossary.

And each value has a type: `Any` is counted.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

LIBRARY = Path(__file__).parents[1] / "plugins" / "icefloe"
FILES = [file for file in sorted(LIBRARY.rglob("*.py")) if file.stem != "__init__"]
NEVER = (
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "manager",
    "handler",
    "processor",
    "draft",
    "gallop",
    "segment",
    "use_cases",
)
"""Words that say nothing, or that mean something else here."""
MOST_ANY = 400
"""`Any` is for values of libraries without types. A value of which nothing is read is an `object`."""


@cache
def definitions(file: Path) -> Sequence[str]:
    made = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, made)]
    return [name for name in names if not name.startswith("_")]


def words_of(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")) | {name}


def test_no_two_modules_have_one_name() -> None:
    found = defaultdict(list)
    for file in FILES:
        found[file.stem].append(file.relative_to(LIBRARY).as_posix())
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_no_two_public_classes_or_functions_have_one_name() -> None:
    found = defaultdict(list)
    for file in FILES:
        for name in definitions(file):
            found[name].append(file.relative_to(LIBRARY).as_posix())
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_no_name_has_a_word_that_says_nothing() -> None:
    names = {(file.relative_to(LIBRARY).as_posix(), name) for file in FILES for name in [file.stem, *definitions(file)]}
    assert {each for each in names if words_of(each[1]) & set(NEVER)} == set()


def test_any_is_no_more_frequent_than_it_was() -> None:
    texts = [file.read_text() for file in FILES]
    trees = (ast.parse(text) for text in texts if "Any" in text)
    found = sum(isinstance(node, ast.Name) and node.id == "Any" for tree in trees for node in ast.walk(tree))
    assert found <= MOST_ANY
