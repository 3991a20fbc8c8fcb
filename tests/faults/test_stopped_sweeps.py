"""A sweep while a run is stopped, and a sweep that is stopped itself: nothing goes that a batch still needs."""

from itertools import takewhile
from pathlib import Path

import pytest

from faults.scenarios import SCENARIOS
from icefloe.errors import TransientError
from support.fakes.gates import GatedRun, gated_stores
from support.tables.table_states import TableStates
from support.tiers import places, walk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NEXT_STOPS_BEFORE = 90
"""An operation in the middle of the next batch."""


def sweep_beside(name: str, number: int, folder: Path, states: TableStates) -> str:
    """Sweeps while the run is stopped, and once more when others have finished its batch and the next one."""
    scenario = SCENARIOS[name]
    place = scenario.place(folder / f"{name}{number}", states)
    with gated_stores(), scenario.in_force():
        late = GatedRun(number, place.late_run())
        if late.is_stopped():
            place.sweep()
            place.others()
            place.sweep()
        error = late.finish()
    assert isinstance(error, TransientError | None), late.where
    place.require_exact()
    return late.where


def stop_sweep(number: int, folder: Path, states: TableStates) -> str:
    """A sweep stops; others finish the batch of a dead run and are in the middle of the next one when it goes on."""
    place = SCENARIOS["changes"].place(folder / f"sweep{number}", states)
    with gated_stores():
        dead = GatedRun(NEXT_STOPS_BEFORE, place.late_run())
        assert dead.is_stopped()
        late = GatedRun(number, place.sweep)
        late.is_stopped()
        place.deliver(place.pipelines[0])
        place.shown.at(place.scenario.shown[-1])
        following = GatedRun(NEXT_STOPS_BEFORE, place.late_run())
        assert following.is_stopped()
        assert late.finish() is None, late.where
        assert following.finish() is None, f"a sweep that was stopped before {late.where} took what a batch needs"
        assert isinstance(dead.finish(), TransientError | None)
    place.require_exact()
    return late.where


@pytest.mark.parametrize(("name", "number"), [("changes", 140), ("load", 25)])
def test_a_sweep_while_a_run_is_stopped_takes_nothing_that_is_needed(
    name: str, number: int, tmp_path: Path, states: TableStates
) -> None:
    assert sweep_beside(name, number, tmp_path, states)


@pytest.mark.parametrize(("turn", "name"), [walk(*each) for each in enumerate(SCENARIOS)])
def test_a_sweep_at_any_document_of_a_run_takes_nothing_that_is_needed(
    turn: int, name: str, tmp_path: Path, states: TableStates
) -> None:
    assert list(takewhile(bool, (sweep_beside(name, place, tmp_path, states) for place in places(181, turn))))


@pytest.mark.parametrize("number", [4, 14])
def test_a_sweep_that_was_stopped_takes_nothing_of_the_batches_since(
    number: int, tmp_path: Path, states: TableStates
) -> None:
    assert stop_sweep(number, tmp_path, states)


@pytest.mark.soak
@pytest.mark.walk
def test_a_sweep_that_was_stopped_anywhere_takes_nothing_of_the_batches_since(
    tmp_path: Path, states: TableStates
) -> None:
    stopped = list(takewhile(bool, (stop_sweep(place, tmp_path, states) for place in places(7))))
    assert stopped
