"""The runner tells which mutations a suite catches."""

from pathlib import Path
from typing import Final

import pytest

from mutations.checkout import Outcome, Verdict
from mutations.mutation import Kind, Mutation
from mutations.mutations import MUTATIONS
from mutations.run import judge, main, named
from support.missing import SKIP_NOTHING

pytestmark = pytest.mark.slow

SUITE: Final = ("test_sign.py",)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one function and one test of it."""
    root = tmp_path / "checkout"
    library = root / "plugins" / "icefloe"
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    (library / "sign.py").write_text("def sign(number):\n    return -1 if number < 0 else 1\n")
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["plugins"]\n')
    (root / "test_sign.py").write_text(
        "from icefloe.sign import sign\n\n\ndef test_a_sign():\n    assert (sign(-5), sign(5)) == (-1, 1)\n"
    )
    return root


def mutation(kind: Kind, function: str = "sign") -> Mutation:
    return Mutation(name=f"{function}: {kind}", function=function, kind=kind, suite=SUITE)


def judged(root: Path, *mutations: Mutation, trust_suites: bool = True, jobs: int = 1) -> list[Verdict]:
    return list(judge(mutations, jobs=jobs, timeout_seconds=60, trust_suites=trust_suites, root=root))


def test_a_mutation_that_a_test_notices_is_caught_by_that_test(root: Path) -> None:
    [verdict] = judged(root, mutation(Kind.NEVER))
    assert (verdict.outcome, verdict.by) == (Outcome.CAUGHT, "test_sign.py::test_a_sign")
    assert verdict.is_right


def test_a_mutation_that_no_test_notices_survives_and_the_code_is_whole_again(root: Path) -> None:
    [verdict] = judged(root, mutation(Kind.OTHERWISE))
    assert verdict.outcome is Outcome.SURVIVED
    assert "number < 0" in (root / "plugins/icefloe/sign.py").read_text()


def test_a_mutation_of_code_that_is_gone_is_stale(root: Path) -> None:
    [verdict] = judged(root, mutation(Kind.NEVER, "gone"))
    assert verdict.outcome is Outcome.STALE
    assert not verdict.is_right


def test_a_mutation_that_lets_no_test_be_collected_is_not_caught(root: Path) -> None:
    (root / "test_sign.py").write_text("from icefloe.sign import signed\n")
    [verdict] = judged(root, mutation(Kind.NEVER))
    assert verdict.outcome is Outcome.UNCLEAR
    assert "ImportError" in verdict.output


def test_a_test_that_lacks_something_of_its_machine_does_not_catch_a_mutation(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SKIP_NOTHING, "1")
    (root / "test_sign.py").write_text(
        f"import os\n\n\ndef test_this_machine():\n    assert not os.environ.get('{SKIP_NOTHING}')\n"
    )
    [verdict] = judged(root, mutation(Kind.NEVER))
    assert verdict.outcome is Outcome.SURVIVED


def test_a_suite_that_fails_with_nothing_broken_is_red(root: Path) -> None:
    (root / "test_sign.py").write_text("def test_nothing():\n    assert False\n")
    verdicts = judged(root, mutation(Kind.NEVER), trust_suites=False, jobs=2)
    assert {verdict.outcome for verdict in verdicts} == {Outcome.RED, Outcome.CAUGHT}


def test_mutations_are_chosen_by_words_of_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert named([]) == list(MUTATIONS)
    assert {mutation.function for mutation in named(["WHATEVER its checksum"])} >= {"load_plan"}
    assert main(["--list", "a plan is run"]) == 0
    said = "a plan is run whatever its checksum (load_plan: a condition never holds; tests/batch/plan/"
    assert capsys.readouterr().out.startswith(said)
    assert main(["no such words"]) == 2
