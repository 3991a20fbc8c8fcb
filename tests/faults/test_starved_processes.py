"""A process that gets no more memory in the middle of a phase ends and says so, and the next run is exact."""

import signal
from pathlib import Path

import pytest

from faults.place import SCENARIOS, Place
from faults.struck_process import starved_run
from support.pipelines.replay import table_rows
from support.sinks.document_folder import DocumentFolder, registered
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FREE_BYTES = (6 << 20, 1 << 20, 1 << 18)
"""What is left, from too little for the stack of a new thread to too little for two columns of a task.

The C library keeps stacks of threads that ended, and a run that finds one may need no more than the first.
"""
ABORTS = {
    127: ["cannot allocate memory for thread-local data: ABORT"],
    -signal.SIGABRT: ["memory allocation of ", "std::bad_alloc"],
}
"""The C library, Rust and C++ end a process that gets no memory: as hard as a kill, but they say why."""


def test_a_run_that_gets_no_more_memory_goes_on_when_there_is_some(tmp_path: Path, states: TableStates) -> None:
    def is_over_and_goes_on(free_bytes: int) -> bool:
        place = SCENARIOS["changes"].place(tmp_path / str(free_bytes), states)
        is_over = is_starved(place, "/plan", free_bytes)
        place.require_exact()
        return is_over

    # Later than at the plan, what was freed before may be enough for the rest of the run.
    assert any(map(is_over_and_goes_on, FREE_BYTES))


def test_a_delivery_that_gets_no_more_memory_goes_on_when_there_is_some(tmp_path: Path, states: TableStates) -> None:
    documents = tmp_path / "documents"
    with registered():
        place = SCENARIOS["load"].place(tmp_path / "place", states)
        place.write_pipeline(sink={"type": "documents", "folder": str(documents)})
        is_over = is_starved(place, "/deliveries/", FREE_BYTES[0])
        is_delivered_now = place.deliver()
        assert is_over or not is_delivered_now
    held = [row for row in DocumentFolder(documents).documents().values() if row]
    assert sorted(tuple(row.values()) for row in held) == sorted(table_rows(place.shown.table(), place.columns))
    place.require_clean()


def is_starved(place: Place, where: str, free_bytes: int) -> bool:
    """True if the run ended for lack of memory, and said so; False if it needed no more than it had."""
    done = starved_run(place.pipeline, where=where, free_bytes=free_bytes)
    if done.code == 0:
        return False
    if done.code in ABORTS:
        assert any(reason in done.err for reason in ABORTS[done.code]), done
        return True
    assert done.code == 75, done.err
    assert "has no memory left (" in done.err.splitlines()[-1]
    return True
