"""Commands of an operator as processes, whose clock is wrong, whose disk is full, or whose reads fail."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.commands import COMMANDS, CommandPlace, ServedCluster, served_cluster
from faults.test_clocks import library
from faults.test_kernel import disk, leave_room, process
from support.missing import require_program
from support.tables.table_states import TableStates
from support.tiers import extended, soak

__all__ = ["disk", "library"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CLOCKS = ["+2h", "-2h", "+30d"]
CLOCKED = [
    # What a purge does depends on the clock; of any other command, one clock each shows that nothing does.
    (extended if command == "purge" or CLOCKS.index(time) == turn % len(CLOCKS) else soak)(command, time)
    for turn, command in enumerate(COMMANDS)
    for time in CLOCKS
]


@pytest.fixture(scope="module")
def served() -> Iterator[ServedCluster]:
    with served_cluster() as made:
        yield made


@pytest.mark.parametrize(("command", "time"), CLOCKED)
def test_a_command_whose_clock_is_wrong_does_what_it_does_with_a_right_one(
    command: str, time: str, tmp_path: Path, states: TableStates, served: ServedCluster, library: Path
) -> None:
    place = CommandPlace.create(tmp_path / command, states, served, command=command)
    faked = {
        "LD_PRELOAD": str(library), "FAKETIME": time, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"
    }  # fmt: skip
    # A file of a run that is at work in this moment: no sweep may take it for an old one.
    young = place.place.folder / "storage/shuffle/_probe-young"
    young.write_bytes(b"at work")
    marks = place.marks()
    done = process(["env", *(f"{name}={value}" for name, value in faked.items()), *place.process()])
    assert done.code == 0, done
    assert young.exists()
    # The time of a commit is one of the writer's clock, so a purge can go by no clock but that of a machine.
    assert command != "purge" or place.marks() == (marks if time == "-2h" else 0)
    place.require_exact()


@pytest.mark.parametrize(
    ("command", "pages"),
    [("reset", 3), extended("reset", 1), extended("set-cursor", 3), extended("abandon", 2), extended("sweep", 0)],
)
def test_a_command_that_fills_its_disk_does_its_work_when_there_is_room(
    command: str, pages: int, states: TableStates, served: ServedCluster, disk: Path
) -> None:
    place = CommandPlace.create(disk / command, states, served, command=command)
    leave_room(disk, pages * resource.getpagesize())
    full = process(place.process())
    assert full.code == 75, full
    assert "No space left on device" in full.err.splitlines()[-1]
    leave_room(disk, None)
    done = process(place.process())
    assert done.code == 0, done
    place.require_exact()


@pytest.mark.parametrize(
    ("command", "nth"),
    [
        ("deliver", 17), extended("reset", 8), extended("set-cursor", 8), extended("abandon", 9), extended("sweep", 4),
        extended("verify", 9), extended("letters", 4), extended("run", 12),
    ],
)  # fmt: skip
def test_a_command_to_which_the_disk_gives_no_document_can_be_repeated(
    command: str, nth: int, tmp_path: Path, states: TableStates, served: ServedCluster
) -> None:
    require_program("strace")
    place = CommandPlace.create(tmp_path / command, states, served, command=command)
    trace = tmp_path / "trace"
    found = [path for path in place.place.folder.rglob("*") if path.suffix in (".json", ".jsonl", ".parquet")]
    strace = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=read,pread64"]
    watched = [word for path in found for word in ("-P", str(path))]
    done = process([*strace, *watched, "-e", f"inject=read,pread64:error=EIO:when={nth}", *place.process()])
    assert "(INJECTED)" in trace.read_text(), "the command reads less"
    assert done.code == 75, done
    assert os.strerror(5) in done.err.splitlines()[-1]
    again = process(place.process())
    assert again.code == 0, again
    place.require_exact()
