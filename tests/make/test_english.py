"""make.english: each rule finds a sentence that breaks it, and lets the better one pass."""

from pathlib import Path

import pytest

from make import english
from make.english import LONGEST_SENTENCE, faults, faults_of_tests, page_faults, source_faults

ROOT = Path(english.__file__).parents[1]
LONG = " ".join(["word"] * (LONGEST_SENTENCE + 1))


def said(found: object) -> list[str]:
    return [fault for _, fault in found]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_repository_keeps_the_rules() -> None:
    assert list(faults(ROOT)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The key stands in the file.", "the word 'stands'"),
        ("Use the first one, else the second.", "the word 'else'"),
        ("| key | tells the size |", "the word 'tells'"),
        (f"{LONG}.", "words in one sentence"),
        ("One sentence. Another one.", "several sentences in one line"),
        ("A sentence that\ngoes on.", "the sentence of the line above goes on"),
        ("- one\n- two\nA paragraph glued to the list.", "the sentence of the line above goes on"),
    ],
)
def test_a_page_that_breaks_a_rule_is_reported(text: str, fault: str) -> None:
    (found,) = said(page_faults(text))
    assert fault in found


@pytest.mark.parametrize(
    "text",
    [
        "A sentence.\nAnother sentence.",
        "- an item\n- another item\n\nA paragraph.",
        "```sh\necho else\n```",
        "`stands` and [a link](where-it-stands.md) are code and a place.",
        f"| {' | '.join(['word'] * 30)} |",
        "[I1]: https://example.com/ of which nothing is said",
    ],
)
def test_a_page_that_keeps_the_rules_passes(text: str) -> None:
    assert said(page_faults(text)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"""What a task does."""', "the docstring begins with a clause"),
        ("raise E('the checkpoint says more than it tells')", "the word 'tells'"),
        (f"raise E('{LONG}')", "words in one sentence"),
        (f"raise E(f'{LONG.replace('word', '{x}', 1)}')", "words in one sentence"),
    ],
)
def test_a_source_that_breaks_a_rule_is_reported(text: str, fault: str) -> None:
    assert fault in said(source_faults(text))[0]


@pytest.mark.parametrize(
    "text",
    [
        '"""The task of a map.\n\nWhat follows may say else or stands; only errors are checked."""',
        "x = 'else'",
        f"raise E('{' '.join(['word'] * 20)}; {' '.join(['word'] * 20)}')",
        f"raise E(f'{{{' + '.join(['x'] * 40)}}} is the value of all of them')",
    ],
)
def test_a_source_that_keeps_the_rules_passes(text: str) -> None:
    assert said(source_faults(text)) == []


def test_a_name_of_a_test_is_checked_for_the_words() -> None:
    names = ("a_key_stands_twice", "what_is_missing_is_named", "each_image_has_a_stand_in", "a_run_says_what_it_did")
    text = "\n".join(f"def test_{name}(): ..." for name in names)
    assert list(faults_of_tests(text)) == [
        (1, "test_a_key_stands_twice has the word 'stands'"),
        (2, "test_what_is_missing_is_named has the word 'what'"),
    ]


def test_a_docstring_of_a_test_is_checked_for_its_first_words() -> None:
    text = 'def deliver():\n    """How it is delivered."""\nTEXT = "What is in a string counts in errors alone"\n'
    assert list(faults_of_tests(text)) == [(1, "the docstring begins with a clause: How it is delivered.")]
