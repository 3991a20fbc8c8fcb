"""A run that is stopped before any read or write, while others go on, delivers nothing twice and leaves nothing behind.

The runs are threads of this process, of which those of one run halt: a place costs a third of a second. That real
processes behave alike is shown by test_stopped_processes.py.
"""

from pathlib import Path

import pytest

from faults.place import SCENARIOS, Scenario
from icefloe.errors import TransientError
from support.fakes.gates import GatedRun, gated_stores
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PLACES = {
    "load": 92, "parts": 39, "from_now": 3, "changes": 150, "net": 5, "moves": 68, "divided": 120,
    "inserts": 98, "nothing": 45, "reload": 9, "damaged": 47, "backfill": 102, "neighbours": 64,
}  # fmt: skip
"""Where each run is stopped: as it opens its batch, in its tasks, as it commits.

They have 77 to 316 operations. In ``moves`` and ``neighbours`` the run is about to look whether its batch is over.
"""
MEETINGS = {"load": 7, "parts": 38, "changes": 43, "moves": 47, "divided": 90, "backfill": 27, "neighbours": 59}
"""Where two runs meet. How many operations each of them has depends on which is first."""


def stop_at(scenario: Scenario, number: int, folder: Path, states: TableStates) -> str:
    """The operation before which the run was stopped; empty if it has fewer."""
    place = scenario.place(folder / f"{scenario.name}{number}", states)
    with gated_stores(), scenario.in_force():
        late = GatedRun(number, place.late_run())
        is_stopped = late.is_stopped()
        if is_stopped:
            place.others()
            # A run that was killed would have left the same, and never take it back.
            place.require_clean()
        delivered = place.delivered()
        error = late.finish()
    assert isinstance(error, TransientError | None), late.where
    place.require_exact()
    assert delivered.items() <= place.delivered().items(), f"a late run changed a committed batch: {late.where}"
    return late.where


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_that_is_stopped_at_some_document_changes_nothing(name: str, tmp_path: Path, states: TableStates) -> None:
    assert stop_at(SCENARIOS[name], PLACES[name], tmp_path, states)


def meet_at(scenario: Scenario, number: int, folder: Path, states: TableStates) -> list[str]:
    """Two runs are let go together before their n-th operation, as two drivers of one batch may meet.

    Returns the operations. One of them has fewer if the other has done its work; none is left if both have fewer.
    """
    place = scenario.place(folder / f"{scenario.name}{number}", states)
    with gated_stores(), scenario.in_force():
        runs = [GatedRun(number, place.late_run()) for _ in range(2)]
        where = [run.where for run in runs if run.is_stopped()]
        for run in runs:
            run.go_on()
        errors = [run.finish() for run in runs]
    assert all(isinstance(error, TransientError | None) for error in errors), where
    assert None in errors, f"both gave up at {where}"
    place.require_exact()
    return where


@pytest.mark.parametrize("name", MEETINGS)
def test_two_runs_at_the_same_document_agree(name: str, tmp_path: Path, states: TableStates) -> None:
    assert len(meet_at(SCENARIOS[name], MEETINGS[name], tmp_path, states)) == 2
