"""Machines whose clocks are hours apart, jump or stand still: no decision depends on a clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.servers.server_process import ServerUnavailableError
from faults.place import SCENARIOS, Place
from support.missing import missing
from support.pipelines.workspace import ROOT, Outcome
from support.servers.faketime import faketime_library
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.extended]

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
