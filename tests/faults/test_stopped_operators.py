"""A command of an operator that is stopped before any read or write, while a run or another operator finishes."""

from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest

from faults.operators import OperatedPlace
from icefloe.batch.context.end_batch import BatchStateError
from icefloe.errors import TransientError
from support.fakes.gates import GatedRun, gated_stores
from support.tables.table_states import TableStates
from support.tiers import places, walk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAIRS = [
    *(("reset", beside) for beside in ("run", "backfill", "reset", "set_cursor", "sweep")),
    *(("set_cursor", beside) for beside in ("run", "backfill", "reset", "set_cursor_back", "sweep")),
    *(("abandon", beside) for beside in ("run", "backfill", "abandon", "abandon_and_reset", "sweep")),
    ("run", "abandon"),
    ("run", "abandon_and_reset"),
]
"""The command that is stopped, and what finishes meanwhile."""
PLACES = {"reset": 22, "set_cursor": 18, "abandon": -25, "run": 40}
"""Where the first pair of each command is stopped in the short run; the others are some operations later."""
REFUSALS = (BatchStateError, TransientError)


def stop_at(command: str, beside: str, number: int, folder: Path, states: TableStates) -> str:
    """The operation before which the command was stopped; empty if it has fewer."""
    operated = OperatedPlace.create(folder / f"{command}{number}", states, is_open=command == "abandon")
    late_command = operated.place.late_run() if command == "run" else getattr(operated, command)
    with gated_stores():
        late = GatedRun(number, late_command)
        if late.is_stopped():
            # It may be refused, because the late command or a run has a batch open.
            with suppress(*REFUSALS):
                getattr(operated, beside)()
        delivered = operated.place.delivered()
        error = late.finish()
    assert error is None or isinstance(error, TransientError if command == "run" else REFUSALS), late.where
    operated.require_announced()
    assert delivered.items() <= operated.place.delivered().items(), f"a committed batch was changed: {late.where}"
    return late.where


@pytest.mark.parametrize(("command", "beside"), PAIRS)
def test_a_command_that_is_stopped_at_some_document_does_what_it_said_or_nothing(
    command: str, beside: str, tmp_path: Path, states: TableStates
) -> None:
    assert stop_at(command, beside, PLACES[command] + 3 * PAIRS.index((command, beside)), tmp_path, states)


@pytest.mark.parametrize(("command", "beside"), [walk(*pair) for pair in PAIRS])
def test_a_command_that_is_stopped_at_any_document_does_what_it_said_or_nothing(
    command: str, beside: str, tmp_path: Path, states: TableStates
) -> None:
    tried = places(83 if command == "run" else 19, PAIRS.index((command, beside)))
    stopped = list(takewhile(bool, (stop_at(command, beside, place, tmp_path, states) for place in tried)))
    assert stopped
