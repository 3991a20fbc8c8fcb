"""A run that delivers is stopped before any document or outward call, while others go on: the sink holds the table."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from faults.delivering import DELIVERING, DeliveringPlace, DeliveringScenario, sinks_in_memory
from faults.recorded_table import recorded_states
from icefloe.errors import TransientError
from support.fakes.gates import GatedRun, gated_stores
from support.tables.table_states import TableStates
from support.tiers import places, until_missed, walk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CALLS = [("load", 12), ("earliest", 4), ("changes", 8), ("reset", 7)]
"""Before the index is shown, before the first batch is begun, between two parts, before the batch is ended."""


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableStates]:
    with sinks_in_memory():
        yield recorded_states(tmp_path_factory.mktemp("delivering"))


def placed(scenario: DeliveringScenario, number: int, folder: Path, states: TableStates) -> DeliveringPlace:
    place = scenario.place(folder / f"{scenario.name}{number}", states)
    assert isinstance(place, DeliveringPlace)
    return place


def stop_at(scenario: DeliveringScenario, number: int, folder: Path, states: TableStates, *, of: str = "") -> str:
    """The operation before which the run was stopped; empty if it has fewer.

    Args:
        scenario: the run and what is around it.
        number: of the operation.
        folder: for the place.
        states: of the table.
        of: see `Gate`; the sinks are called Memory.
    """
    place = placed(scenario, number, folder, states)
    with gated_stores():
        late = GatedRun(number, place.late_run(), of=of)
        is_stopped = late.is_stopped()
        if is_stopped:
            place.others()
            # A run that was killed would have left the same, and never go on.
            place.require_clean()
            place.require_held()
        delivered = place.delivered()
        error = late.finish()
        assert isinstance(error, TransientError | None), late.where
        if is_stopped:
            place.require_held()
    place.require_exact()
    assert delivered.items() <= place.delivered().items(), f"a late run changed a committed batch: {late.where}"
    return late.where


@pytest.mark.parametrize(("name", "number"), CALLS)
def test_a_delivery_that_is_stopped_somewhere_changes_nothing(
    name: str, number: int, tmp_path: Path, states: TableStates
) -> None:
    assert stop_at(DELIVERING[name], number, tmp_path, states, of="Memory")


@pytest.mark.parametrize(("turn", "name"), [walk(*each) for each in enumerate(DELIVERING)])
def test_a_delivery_that_is_stopped_anywhere_changes_nothing(
    turn: int, name: str, tmp_path: Path, states: TableStates
) -> None:
    tried = places(199, turn)
    stopped = list(takewhile(bool, (stop_at(DELIVERING[name], place, tmp_path, states) for place in tried)))
    assert stopped


def meet_at(scenario: DeliveringScenario, number: int, folder: Path, states: TableStates, *, of: str = "") -> list[str]:
    """Two runs are let go together before their n-th operation: both deliver the same parts at once.

    Returns the operations. One of them has fewer if the other has done its work; none is left if both have fewer.
    """
    place = placed(scenario, number, folder, states)
    with gated_stores():
        runs = [GatedRun(number, place.late_run(), of=of) for _ in range(2)]
        where = [run.where for run in runs if run.is_stopped()]
        for run in runs:
            run.go_on()
        errors = [run.finish() for run in runs]
    assert all(isinstance(error, TransientError | None) for error in errors), where
    # Producers of one transaction may fence each other, so that both end; whoever comes next delivers the batch.
    assert None in errors or scenario.sink == "log", f"both gave up at {where}"
    place.require_exact()
    return where


def test_two_deliveries_at_the_same_call_agree(tmp_path: Path, states: TableStates) -> None:
    # How many documents a run reads and writes before depends on the other one; its calls of the sink do not.
    assert len(meet_at(DELIVERING["changes"], 4, tmp_path, states, of="Memory")) == 2


@pytest.mark.parametrize(("turn", "name"), [walk(*each) for each in enumerate(DELIVERING)])
def test_two_deliveries_at_any_document_agree(turn: int, name: str, tmp_path: Path, states: TableStates) -> None:
    tried = places(397, turn)
    met = list(until_missed(meet_at(DELIVERING[name], place, tmp_path, states) for place in tried))
    assert any(met)
