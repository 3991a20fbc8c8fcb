"""The list of mutations fits the library as it is."""

import ast
from pathlib import Path
from typing import Final

from mutations.checkout import library
from mutations.every_mutation import MUTATIONS
from mutations.mutation import Mutation, StaleMutationError

ROOT: Final = Path(__file__).parents[2]
MOST: Final = 115


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
