"""The list of mutations fits the library as it is."""

import ast
from pathlib import Path
from typing import Final

import pytest

from mutations.checkout import Checkout, Outcome, library
from mutations.every_mutation import MUTATIONS
from mutations.mutation import Kind, Mutation, StaleMutationError

ROOT: Final = Path(__file__).parents[2]
MOST: Final = 118


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


@pytest.mark.parametrize(("place", "outcome"), [(0, Outcome.UNCLEAR), (1, Outcome.CAUGHT)])
def test_a_file_that_runs_no_longer_is_no_noticed_fault(place: int, outcome: Outcome, tmp_path: Path) -> None:
    package = tmp_path / "plugins" / "icefloe"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sums.py").write_text("def total(rows):\n    found = [0]\n    found += rows\n    return sum(found)\n")
    (tmp_path / "test_sums.py").write_text(
        "from icefloe.sums import total\n\ndef test_it():\n    assert total([1]) == 1\n"
    )
    broken = Mutation(name="rows are left out", function="total", kind=Kind.WITHOUT, place=place)
    assert Checkout(tmp_path).run(["test_sums.py"], broken, timeout_seconds=60).outcome is outcome
