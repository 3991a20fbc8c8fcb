"""Machines whose clocks are hours apart, jump or stand still: no decision depends on a clock."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE, ServerUnavailableError
from faults.commands import COMMANDS, CommandPlace, ServedCluster, served_cluster
from faults.place import SCENARIOS, Place
from faults.test_kernel import process
from support.missing import missing
from support.pipelines.workspace import ROOT, Outcome
from support.tables.table_states import TableStates
from support.tiers import extended, soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_NAME: Final = "libfaketime.so.1"
_FOLDER: Final = CACHE / "faketime"
_INSTALLED: Final = Path("/usr/lib")


def faketime_library() -> Path:
    """The file for ``LD_PRELOAD``; its package is unpacked into the cache, not installed."""
    with fetching("faketime"):
        found = _found(_INSTALLED) or _found(_FOLDER)
        return found or _fetched()


def _found(folder: Path) -> Path | None:
    return next(folder.glob(f"**/faketime/{_NAME}"), None)


def _fetched() -> Path:
    _FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="faketime-", dir=CACHE) as folder:
        made = Path(folder, "made")
        try:
            _run(["apt-get", "download", "libfaketime"], folder)
            [package] = Path(folder).glob("*.deb")
            _run(["dpkg-deb", "--extract", str(package), str(made)], folder)
        except (OSError, subprocess.CalledProcessError) as cause:
            words = cause.stderr if isinstance(cause, subprocess.CalledProcessError) else str(cause)
            raise ServerUnavailableError(
                f"libfaketime could not be fetched; install the package `faketime`: {' '.join(words.split())[-400:]}"
            ) from cause
        # Whole or not there, also if this process is killed.
        made.rename(_FOLDER)
    found = _found(_FOLDER)
    assert found is not None
    return found


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


STOPS_BEFORE = {"load": 9, "changes": 60}
"""The operation on a store before which the first run is killed."""


@pytest.fixture(scope="module")
def library() -> Path:
    try:
        return faketime_library()
    except ServerUnavailableError as reason:
        missing("this machine shows a process no other time", str(reason))


def run_at(time: str, library: Path, place: Place, stops_before: int = 0) -> Outcome:
    """A run whose clock shows another time; it stops for ever before an operation, unless that is 0."""
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "tests")])
    faked = {"LD_PRELOAD": str(library), "FAKETIME": time, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
    command = [sys.executable, "-m", "faults.stopped_process", str(stops_before), str(place.pipelines[0])]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path, **faked}, stderr=subprocess.PIPE, text=True
    )
    if stops_before:
        os.waitpid(process.pid, os.WUNTRACED)
        process.kill()
    _, said = process.communicate(timeout=120)
    return Outcome(code=process.returncode, out="", err=said)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("changes", "+2h", "-2h"), ("load", "+2h", "-2h"), ("changes", "-2h", "+2h"), ("load", "-2d", "+0 x600"),
        ("changes", "@2020-01-01 00:00:00", "+1d"),
    ],
)  # fmt: skip
def test_runs_whose_clocks_are_hours_apart_finish_one_batch(
    name: str, first: str, second: str, tmp_path: Path, states: TableStates, library: Path
) -> None:
    place = SCENARIOS[name].place(tmp_path / "place", states)
    assert run_at(first, library, place, STOPS_BEFORE[name]).code < 0
    for time in (second, "2021-01-01 00:00:00"):
        done = run_at(time, library, place)
        assert done.code == 0, done.err
    place.require_exact()


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
