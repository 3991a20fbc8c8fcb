"""The list of mutations fits the library as it is."""

import ast
from pathlib import Path
from typing import Final

import pytest

from mutations.checkout import library
from mutations.mutation import Kind, Mutation, StaleMutationError
from mutations.mutations import MUTATIONS

ROOT: Final = Path(__file__).parents[2]
MOST: Final = 150
TEXT: Final = """
def outer(a, b):
    "Says what it does."
    found = [each for each in a if each > 1 and b]
    if not found:
        raise ValueError(str(a))
    found.sort()
    return len(found) + 1 if found else 0

class Owner:
    def method(self):
        return 1 < 2
"""


def test_a_mutation_breaks_its_place_and_leaves_python() -> None:
    sources = library(ROOT)
    faults = [fault for mutation in MUTATIONS if (fault := _fault_of(mutation, sources)) is not None]
    assert not faults, "\n".join(faults)
    assert len(MUTATIONS) <= MOST


def _fault_of(mutation: Mutation, sources: dict[str, str]) -> str | None:
    """Fault of a mutation, as a sentence; None if it breaks its function and leaves Python."""
    try:
        path, broken = mutation.broken(sources)
    except StaleMutationError as cause:
        return str(cause)
    is_same = ast.dump(ast.parse(broken)) == ast.dump(ast.parse(sources[path]))
    return f"{mutation.name!r} changes nothing in {path}" if is_same else None


def test_the_tests_that_must_notice_a_mutation_are_there() -> None:
    assert [mutation.name for mutation in MUTATIONS if not mutation.suite] == []
    places = {place: mutation.name for mutation in MUTATIONS for place in mutation.suite}
    gone = {place: name for place, name in places.items() if not _is_there(place)}
    assert not gone, gone


def _is_there(place: str) -> bool:
    """True if a file of tests exists, and in it the test that may be named."""
    path, _, test = place.partition("::")
    owner, _, inherited = test.partition("::")
    named = f"class {owner}(" if inherited else f"def {test}("
    return (ROOT / path).exists() and (not test or named in (ROOT / path).read_text())


def test_no_two_mutations_have_one_name_or_break_one_place() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    assert len({(each.function, each.kind, each.place) for each in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize(
    ("kind", "place", "line"),
    [
        (Kind.NEVER, 0, "found = [each for each in a if False]"),
        (Kind.NEVER, 1, "found = [each for each in a if False and b]"),
        (Kind.ALWAYS, 3, "if True:"),
        (Kind.OTHERWISE, 0, "found = [each for each in a if each >= 1 and b]"),
        (Kind.WITHOUT, 2, "    pass\n    return"),
        (Kind.WITHOUT, 3, "        pass"),
        (Kind.FIRST, 0, "found = [each for each in a if each > 1]"),
        (Kind.FIRST, 1, "return len(found) + 1\n"),
        (Kind.SECOND, 0, "found = [each for each in a if b]"),
        (Kind.UNCALLED, 1, "raise ValueError(a)"),
        (Kind.ZERO, 0, "found = 0"),
    ],
)
def test_a_function_is_broken_as_the_kind_says_at_the_place(kind: Kind, place: int, line: str) -> None:
    path, broken = Mutation(name="m", function="outer", kind=kind, place=place).broken({"room/file.py": TEXT})
    assert path == "room/file.py"
    assert line in broken
    assert line not in ast.unparse(ast.parse(TEXT))


def test_a_method_is_named_after_its_class_and_a_function_by_its_module_if_there_are_two() -> None:
    sources = {"a/one.py": TEXT, "b/two.py": TEXT}
    for function in ("one:Owner.method", "two:Owner.method"):
        path, broken = Mutation(name="m", function=function, kind=Kind.OTHERWISE).broken(sources)
        assert (Path(path).stem, "return 1 <= 2" in broken) == (function[:3], True)


@pytest.mark.parametrize(
    ("function", "place", "said"), [("method", 0, "has 0 functions"), ("outer", 9, "has 5 places where a condition")]
)
def test_code_that_is_gone_or_there_twice_is_not_broken_by_chance(function: str, place: int, said: str) -> None:
    with pytest.raises(StaleMutationError, match=said):
        Mutation(name="m", function=function, kind=Kind.NEVER, place=place).broken({"a.py": TEXT})
    with pytest.raises(StaleMutationError, match="has 2 functions"):
        Mutation(name="m", function="outer", kind=Kind.NEVER).broken({"a.py": TEXT, "b.py": TEXT})
