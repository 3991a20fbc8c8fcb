import logging

import pytest

from icefloe.cli.screen import log_to_stderr

LOGGER = logging.getLogger("icefloe.somewhere")


def test_warnings_go_to_standard_error_with_the_program_s_name(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(is_verbose=False):
        LOGGER.warning("the recorded value wins")
        LOGGER.info("a decision")
    assert capsys.readouterr().err == "icefloe: the recorded value wins\n"


def test_verbose_shows_every_decision_and_where_it_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(is_verbose=True):
        LOGGER.info("a decision")
    assert capsys.readouterr().err.endswith(" icefloe.somewhere: a decision\n")


def test_the_loggers_are_left_as_they_were_found() -> None:
    library = logging.getLogger("icefloe")
    before = (library.level, library.propagate, list(library.handlers))
    with pytest.raises(ZeroDivisionError), log_to_stderr(is_verbose=True):
        raise ZeroDivisionError
    assert (library.level, library.propagate, list(library.handlers)) == before
