from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.nodes.machines_in_turn import MachinesInTurn
from support.pipelines.transfers import DATA_FILES, OVER_NODES, blocks_in_a_file_of_their_own
from support.pipelines.workshop import OpenBatch, Workshop


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachinesInTurn]:
    found = MachinesInTurn(tmp_path_factory.mktemp("machines") / "of_batches")
    yield found
    found.close()


_AT_NODES = ("map", "reduce", "run", "test_cleanup", "test_commit_batch", "test_phases", "test_late_runs")
"""Folders and files whose tests run over nodes too, in `make extended`: what passes map outputs on, or deletes them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    named = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    if "workshop" in metafunc.fixturenames and "workshop" not in named:
        path = metafunc.definition.path
        over_nodes = [OVER_NODES] if {path.parent.name, path.stem} & {*_AT_NODES} else []
        metafunc.parametrize("workshop", ["store", *over_nodes], indirect=True)


@pytest.fixture
def workshop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workshop]:
    """An empty table with a pipeline over it, whose map outputs are in the storage, or at nodes."""
    empty = Workshop.create(tmp_path)
    if request.param == "store":
        yield empty
    elif request.param == DATA_FILES:
        with blocks_in_a_file_of_their_own():
            yield empty
    else:
        machines: MachinesInTurn = request.getfixturevalue("machines")
        with machines.writing():
            yield replace(empty, machines=machines)


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """Batch 1, delivered and not committed; batch 0 is done."""
    workshop.append(range(20))
    workshop.deliver()
    workshop.update([1], value=2.0)
    return workshop.open().run_route()
