"""A command of an operator that meets a fault says so, may be repeated, and leaves the sink as it must be."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import current_thread
from typing import Any
from unittest import mock

import pytest

from faults.commands import CommandPlace, ServedCluster, served_cluster
from icefloe.sinks.opensearch.cluster import Cluster
from support.fakes.disks import FAULTS, DiskFault, failing_disk
from support.fakes.gates import GatedRun, gated_stores
from support.pipelines.workspace import Outcome
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FAILING = [
    ("reset", "write ENOSPC", 5), ("set-cursor", "write EDQUOT", 6), ("abandon", "fsync EIO", 14),
    ("sweep", "open EMFILE", 9), ("verify", "open EMFILE", 1), ("deliver", "unlink EIO", 1),
]  # fmt: skip
"""The command, and the call that fails."""
STOPPED = [("verify", "run", 30), ("deliver", "run", 118), ("purge", "run", 8), ("run", "purge", 120)]
"""The command, what finishes meanwhile, and where the command is stopped."""


@pytest.fixture(scope="module")
def served() -> Iterator[ServedCluster]:
    with served_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def place_of(
    tmp_path_factory: pytest.TempPathFactory, states: TableStates, served: ServedCluster
) -> Callable[[str], CommandPlace]:
    """Makes the place of a command once: every test begins with its `restore`."""
    folder = tmp_path_factory.mktemp("places")
    return cache(lambda command: CommandPlace.create(folder / command, states, served, command=command))


@pytest.fixture
def placed(place_of: Callable[[str], CommandPlace], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], CommandPlace]:
    """The place of a command, whose local disk is that of its stores."""

    def at(command: str) -> CommandPlace:
        place = place_of(command)
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place.place.folder))
        return place

    return at


@contextmanager
def gated() -> Iterator[None]:
    """Makes every store and every client of the cluster look for the gate of its thread."""
    whole = Cluster._send

    def send(cluster: Cluster, method: str, path: str, *arguments: Any) -> Any:
        gate = getattr(current_thread(), "gate", None)
        if gate is not None:
            gate.arrive(method, f"{cluster.url}{path}")
        return whole(cluster, method, path, *arguments)

    with gated_stores(), mock.patch.object(Cluster, "_send", send):
        yield


def stop_at(place: CommandPlace, beside: str, number: int) -> str:
    """The operation before which the command was stopped; empty if it has fewer."""
    place.restore()
    ends: list[Outcome] = []
    with gated():
        late = GatedRun(number, lambda: ends.append(place.run(place.command)))
        if late.is_stopped():
            ends.append(place.run(beside))
        error = late.finish()
    assert error is None, late.where
    assert {end.code for end in ends} <= {0, 75}, (late.where, ends)
    place.require_exact()
    return late.where


@pytest.mark.parametrize(("command", "beside", "number"), STOPPED)
def test_a_command_that_is_stopped_at_some_operation_does_what_it_said_or_nothing(
    command: str, beside: str, number: int, placed: Callable[[str], CommandPlace]
) -> None:
    assert stop_at(placed(command), beside, number)


def fail_at(fault: DiskFault, place: CommandPlace, nth: int) -> bool:
    """False if the command has fewer such calls."""
    place.restore()
    with failing_disk(fault, nth, place.place.folder) as struck:
        done = place.run(place.command)
    if not struck:
        assert done.code == 0, done
        return False
    # A short write goes on where it stopped; what only tidies up may fail unseen.
    assert done.code in (0, 75), (struck, done)
    assert done.code == 0 or os.strerror(fault.code or 0) in done.err, (struck, done)
    again = place.run(place.command)
    assert again.code == 0, (struck, again)
    place.require_exact(is_swept=True)
    return True


@pytest.mark.parametrize(("command", "fault", "nth"), FAILING)
def test_a_command_whose_disk_fails_at_some_call_can_be_repeated(
    command: str, fault: str, nth: int, placed: Callable[[str], CommandPlace]
) -> None:
    [found] = [each for each in FAULTS if str(each) == fault]
    assert fail_at(found, placed(command), nth)
