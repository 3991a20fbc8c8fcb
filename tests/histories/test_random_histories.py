"""Random histories: every change that icefloe tells, held to the states that Iceberg's own readers give.

A failure prints the smallest history found that still goes wrong, and the command that replays it. `make soak` tries
thousands.
"""

import os
from typing import Any

import pytest

from histories.generator import generate
from histories.java_bench import JavaBench
from histories.pyiceberg_bench import PyIcebergBench
from histories.soak import replay_command
from histories.trial import Laboratory
from support.missing import missing

pytestmark = pytest.mark.slow

OF_EVERY_CHANGE = {"pyiceberg": 12, "java": 8, "sql": 4}
"""How many seeds `make test` tries."""
OF_A_RELEASE = {"pyiceberg": 60, "java": 45, "sql": 18}
"""Before which seed `make extended` goes on."""
OF_RARE_CHANGES = {"pyiceberg": [93], "java": [48, 88], "sql": []}
"""Seeds after it that `make extended` tries all the same: operations succeed there that succeed in few histories."""
SHRINKING_ATTEMPTS = int(os.environ.get("ICEFLOE_SHRINKING_ATTEMPTS", "60"))
"""A test must end; `make soak` shrinks further, and a mutation is to be found, not to be explained."""


def cases() -> list[Any]:
    """Seeds and writers. Writers take turns, so that a fault that only one of them shows is found soon."""
    found = []
    for writer, few in OF_EVERY_CHANGE.items():
        for seed in [*range(OF_A_RELEASE[writer]), *OF_RARE_CHANGES[writer]]:
            marks = [pytest.mark.spark] * (writer != "pyiceberg") + [pytest.mark.extended] * (seed >= few)
            found.append(pytest.param(seed, writer, marks=marks))
    return sorted(found, key=lambda case: case.values[0])


@pytest.mark.parametrize(("seed", "writer"), cases())
def test_the_changes_of_a_table_are_the_differences_of_its_states(
    laboratory: Laboratory, seed: int, writer: str
) -> None:
    history = generate(seed, writer)
    try:
        laboratory.try_out(history)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        smallest = laboratory.shrunken(history, error, attempts=SHRINKING_ATTEMPTS)
        pytest.fail(f"{type(error).__name__}: {error}\n\n{replay_command(smallest)}", pytrace=False)
    assert laboratory.tally.not_built == {}


@pytest.mark.spark
@pytest.mark.extended
def test_every_operation_was_applied(laboratory: Laboratory) -> None:
    tally = laboratory.tally
    rare = sum(map(len, OF_RARE_CHANGES.values()))
    if tally.histories < sum(OF_A_RELEASE.values()) - sum(OF_EVERY_CHANGE.values()) + rare:
        missing("histories of this file were left out", "run all of it in one process")
    operations = {"deliver", *PyIcebergBench.operations, *JavaBench.operations}
    assert sorted(operations - set(tally.applied)) == []
    assert tally.batches > 100
    assert tally.node_requests > 10
