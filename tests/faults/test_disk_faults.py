"""Whichever write, sync or link of a run fails: the run says so and may be tried again, and the next run is exact."""

import os
from pathlib import Path

import pytest

from faults.place import SCENARIOS, Place, Scenario
from icefloe.errors import TransientError
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.storage.location import open_store
from support.fakes.disks import FAULTS, DiskFault, failing_disk
from support.pipelines.leftovers import left_by_writers
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LATER = 31
"""So many calls later than that of a load is the one that fails in the run of changes, if there are as many."""


def fail_at(fault: DiskFault, scenario: Scenario, nth: int, folder: Path, states: TableStates) -> bool:
    """False if the run has fewer such calls."""
    with scenario.in_force():
        return _fail_at(fault, scenario.place(folder / f"{scenario.name}{nth}", states), nth)


def _fail_at(fault: DiskFault, place: Place, nth: int) -> bool:
    with failing_disk(fault, nth, place.folder) as struck:
        error = error_of(place)
    if not struck:
        assert error is None
        return False
    # A short write goes on where it stopped; what only tidies up may fail unseen.
    assert isinstance(error, TransientError | None), (struck, error)
    assert error is None or os.strerror(fault.code or 0) in error.sentence, (struck, error)
    # What could not be removed stays until it is old.
    assert left_by_writers(place.folder) == [] or fault.call == "unlink"
    # It may have been the cleanup, which the next one or a sweep makes up for.
    place.require_exact(is_swept=True)
    return True


def error_of(place: Place) -> BaseException | None:
    try:
        place.late_run()()
    except Exception as error:  # noqa: BLE001 - judged by the caller
        return error
    return None


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("name", ["load", "changes"])
def test_a_run_whose_disk_fails_at_some_call_can_be_repeated(
    fault: DiskFault, name: str, tmp_path: Path, states: TableStates
) -> None:
    nth = 1 + FAULTS.index(fault) + (LATER if name == "changes" else 0)
    assert fail_at(fault, SCENARIOS[name], nth, tmp_path, states) or nth > LATER


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.call != "link"], ids=str)
def test_dead_letters_whose_disk_fails_are_the_old_ones_or_the_new_ones(fault: DiskFault, tmp_path: Path) -> None:
    folder = DeadLetterFolder(open_store(tmp_path.as_uri()), limit=10)
    old, new = [letter("old")], [letter("new"), letter("newer")]
    for nth in range(1, 20):
        folder.put(7, 0, old)
        with failing_disk(fault, nth, tmp_path) as struck:
            try:
                folder.put(7, 0, new)
            except TransientError:
                assert struck
        assert list(folder.letters(7)) in (old, new)
        folder.put(7, 0, new)
        assert list(folder.letters(7)) == new
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["part-00000.jsonl"]
        if not struck:
            break
    assert nth > 1, f"{fault} never struck"


def letter(reason: str) -> DeadLetter:
    return DeadLetter(id="1:7", version=3, operation="index", document={"id": 7}, reason=reason)
