"""A process that gets no more memory in the middle of a phase ends and says so, and the next run is exact."""

import signal
from pathlib import Path

import pytest

from faults.place import Place
from faults.scenarios import SCENARIOS
from faults.struck_process import starved_run
from support.pipelines.replay import table_rows
from support.sinks.document_folder import DocumentFolder, registered
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FREE_BYTES = 6 << 20
"""Enough for small things, and too little for the stack of one more thread."""

ABORTS = {127: "cannot allocate memory for thread-local data: ABORT", -signal.SIGABRT: "memory allocation of "}
"""The C library and Rust end a process to which the system gives no memory: as hard as a kill, but they say why."""


@pytest.mark.parametrize("where", ["/plan", "/results/"])
def test_a_run_that_gets_no_more_memory_goes_on_when_there_is_some(
    where: str, tmp_path: Path, states: TableStates
) -> None:
    place = SCENARIOS["changes"].place(tmp_path / "place", states)
    is_over = is_starved(place, where)
    # Threads start right after the plan. Later, what was freed before may be enough for the rest of the run.
    assert is_over or where != "/plan"
    place.require_exact()


def test_a_delivery_that_gets_no_more_memory_goes_on_when_there_is_some(tmp_path: Path, states: TableStates) -> None:
    documents = tmp_path / "documents"
    with registered():
        place = SCENARIOS["load"].place(tmp_path / "place", states)
        place.write_pipelines(sink={"type": "documents", "folder": str(documents)})
        is_over = is_starved(place, "/deliveries/")
        is_delivered_now = place.deliver(place.pipelines[0])
        assert is_over or not is_delivered_now
    held = [row for row in DocumentFolder(documents).documents().values() if row]
    assert sorted(tuple(row.values()) for row in held) == sorted(table_rows(place.shown.table(), place.columns))
    place.require_clean()


def is_starved(place: Place, where: str) -> bool:
    """True if the run ended for lack of memory, and said so; False if it needed no more than it had."""
    done = starved_run(place.pipelines[0], where=where, free_bytes=FREE_BYTES)
    if done.code == 0:
        return False
    if done.code in ABORTS:
        assert ABORTS[done.code] in done.err, done
        return True
    assert done.code == 75, done.err
    assert "has no memory left (" in done.err.splitlines()[-1]
    return True
