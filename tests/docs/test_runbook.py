"""The runbook knows every error, and no other."""

import re
from dataclasses import dataclass

import pytest

from docs.error_sentences import (
    FAULTS,
    HOLE,
    ErrorSentence,
    all_sentences,
    unreadable,
)
from support.pages.blocks import ROOT

RUNBOOK = ROOT / "docs" / "runbook.md"
OF_PIPELINE_FILES = "….yaml:…: …"
"""The form of whatever is wrong in a pipeline file, which tests/pipeline holds to each fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    line: int
    words: str
    is_retried: bool

    def __str__(self) -> str:
        return f"runbook.md:{self.line} {self.words}"

    def tells(self, error: ErrorSentence) -> bool:
        return self.words in error.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page.

    Attributes:
        code: folders and files of the library, as the paragraph that begins with ``Code:`` names them.
        lines: numbers of its lines.
    """

    name: str
    code: tuple[str, ...]
    lines: range


def sections() -> list[Section]:
    """The parts of the page that have rows of sentences."""
    found = []
    stop = 1
    for text in re.split(r"(?m)^(?=## )", RUNBOOK.read_text()):
        start, stop = stop, stop + text.count("\n")
        paragraph = re.search(r"^Code: (?:.+\n)+", text, re.MULTILINE)
        code = re.findall(r"`([\w/]+(?:/|\.py))`", paragraph[0]) if paragraph else []
        found.append(Section(name=text.partition("\n")[0], code=tuple(code), lines=range(start, stop)))
    return [section for section in found if any(entry.line in section.lines for entry in ENTRIES)]


def entries() -> list[Entry]:
    page, _, _ = RUNBOOK.read_text().partition("\n## No sentence at all\n")
    rows = [(n, line.split(" | ")) for n, line in enumerate(page.splitlines(), 1) if line.startswith("| `")]
    assert all(len(cells) == 4 and cells[1] in ("yes", "no") for _, cells in rows)
    return [
        Entry(line=number, words=words, is_retried=cells[1] == "yes")
        for number, cells in rows
        for words in re.findall(r"`([^`]+)`", cells[0])
    ]


ENTRIES = [entry for entry in entries() if entry.words != OF_PIPELINE_FILES]


def test_every_sentence_can_be_read_from_the_source() -> None:
    assert unreadable() == [], "say in tests/docs/error_sentences.py whose sentences they hand on"


def test_the_runbook_has_a_way_out_of_every_error() -> None:
    faults = [fault for error in all_sentences() if (fault := _fault_of_runbook(error)) is not None]
    assert not faults, "\n".join(faults)


def _fault_of_runbook(error: ErrorSentence) -> str | None:
    """Fault of the runbook about an error, as a sentence; None if it has the way out."""
    if not error.text.replace(HOLE, "").strip():
        return None
    telling = [entry for entry in ENTRIES if entry.tells(error)]
    if not telling:
        return (
            f"no entry of docs/runbook.md has words of {error.text!r} ({error.place}): add a row, or its words to a row"
        )
    if len({entry.line for entry in telling}) > 1:
        return f"several rows tell of {error.place}: {', '.join(map(str, telling))}"
    wrong = [entry for entry in telling if entry.is_retried != error.is_transient]
    if wrong and not error.place.startswith(FAULTS):
        return f"{wrong[0]} says otherwise of retries than {error.place}"
    return None


def test_every_entry_is_of_an_error_that_is_there() -> None:
    idle = [str(entry) for entry in ENTRIES if not any(entry.tells(error) for error in all_sentences())]
    assert not idle, f"no error says this any more: {idle}"


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.name)
def test_a_section_names_the_code_of_its_errors_and_no_other(section: Section) -> None:
    own = [entry for entry in ENTRIES if entry.line in section.lines]
    places = {error.place for error in all_sentences() if any(entry.tells(error) for entry in own)}
    astray = sorted(place for place in places if not place.startswith(section.code))
    assert not astray, f"{section.name} of docs/runbook.md does not lead to {astray}: name their folder or file"
    idle = [code for code in section.code if not any(place.startswith(code) for place in places)]
    assert not idle, f"{section.name} of docs/runbook.md names {idle}, which say none of its errors"
