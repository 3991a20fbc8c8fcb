"""Commands in the middle of a sentence or in a table are ones that the programs take."""

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt

from icefloe.cli.commands import make_parser
from support.pages.blocks import ROOT, pages

PROGRAMS = ("icefloe", "airflow", "make")
MOST_LEFT_OUT = 3
"""A sentence that speaks of a command may leave out what every call of it names."""


def commands() -> Iterator[tuple[str, str]]:
    """The place of a command, and the command."""
    for page in pages():
        for token in MarkdownIt("commonmark").parse(page.read_text()):
            for child in token.children or ():
                text = " ".join(child.content.split())
                if child.type == "code_inline" and re.match(rf"({'|'.join(PROGRAMS)}) [a-z-]", text):
                    yield f"{page.relative_to(ROOT)}:{(token.map or [0])[0] + 1}", text


@pytest.mark.airflow
@pytest.mark.parametrize(("place", "command"), sorted(set(commands())))
def test_a_command_is_one_that_its_program_takes(place: str, command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        targets = re.findall(r"^([a-z.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert arguments[0] in targets
    elif len(arguments) == 1:  # a command's name alone
        assert is_taken(program, [*arguments, "--help"])
    else:
        numbered = [re.sub(r"^N$", "1", argument) for argument in arguments]
        assert any(is_taken(program, [*numbered, *["named"] * missing]) for missing in range(MOST_LEFT_OUT + 1))


def is_taken(program: str, arguments: list[str]) -> bool:
    """True if a program knows the command, its options and as many arguments."""
    try:
        parser_of(program).parse_args(arguments)
    except SystemExit as stop:
        return stop.code == 0  # it has printed its help
    return True


def parser_of(program: str) -> ArgumentParser:
    if program == "icefloe":
        return make_parser()
    from airflow.cli.cli_parser import get_parser

    return get_parser()
