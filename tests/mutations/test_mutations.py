"""The list of mutations fits the library as it is."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from mutations.mutation import Mutation, StaleMutationError
from mutations.mutations import MUTATIONS

ROOT: Final = Path(__file__).parents[2]


@cache
def _source(path: str) -> str:
    return (ROOT / "plugins/icefloe" / path).read_text()


@cache
def _tree(path: str) -> str:
    """The source as Python reads it; many mutations break the same file."""
    return ast.dump(ast.parse(_source(path)))


def test_a_mutation_breaks_its_places_and_leaves_python() -> None:
    faults = [fault for mutation in MUTATIONS if (fault := _fault_of(mutation)) is not None]
    assert not faults, "\n".join(faults)


def _fault_of(mutation: Mutation) -> str | None:
    """Fault of a mutation, as a sentence; None if it breaks each of its files and leaves Python."""
    sources = {edit.path: _source(edit.path) for edit in mutation.edits}
    if len(sources) != len(mutation.edits):
        return f"{mutation.name!r} has two edits of one file"
    try:
        broken = {path: ast.dump(ast.parse(text)) for path, text in mutation.broken(sources).items()}
    except (StaleMutationError, SyntaxError) as cause:
        return f"{mutation.name!r}: {cause}"
    same = [path for path, tree in broken.items() if tree == _tree(path)]
    return f"{mutation.name!r} changes nothing in {same}" if same else None


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


def test_no_two_mutations_have_one_name_or_show_one_effect_to_one_suite() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    assert len({(mutation.edits, mutation.suite) for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("source", ["", "a = 1\na = 1\n"])
def test_code_that_is_gone_or_there_twice_is_not_broken_by_chance(source: str) -> None:
    mutation = Mutation(name="a is another number", path="a.py", before="a = 1", after="a = 2")
    with pytest.raises(StaleMutationError, match=r"a\.py has the code"):
        mutation.broken({"a.py": source})
