"""Random histories: every change that icefloe tells, held to the states that Iceberg's own readers give.

A failure prints the smallest history found that still goes wrong, and the command that replays it. `make soak` tries
thousands.
"""

from typing import Any

import pytest

from histories.generator import generate
from histories.history import History
from histories.java_bench import JavaBench
from histories.pyiceberg_bench import PyIcebergBench
from histories.soak import replay_command
from histories.trial import Laboratory
from support.missing import missing
from support.tiers import extended

pytestmark = pytest.mark.slow

OF_EVERY_CHANGE = {"pyiceberg": 12, "java": 8, "sql": 4}
"""How many seeds `make test` tries."""
OF_A_RELEASE = {"pyiceberg": 60, "java": 45, "sql": 18}
"""Before which seed `make extended` goes on."""
OF_RARE_CHANGES = {"pyiceberg": [93], "java": [48, 88], "sql": []}
"""Seeds after it that `make extended` tries all the same: operations succeed there that succeed in few histories."""
SHRINKING_ATTEMPTS = 60
"""A test must end; `make soak` shrinks further."""


def seeds(writer: str) -> list[Any]:
    few, more = OF_EVERY_CHANGE[writer], OF_A_RELEASE[writer]
    return [*range(few), *map(extended, [*range(few, more), *OF_RARE_CHANGES[writer]])]


@pytest.mark.parametrize("seed", seeds("pyiceberg"))
def test_the_changes_of_a_table_that_pyiceberg_writes(laboratory: Laboratory, seed: int) -> None:
    hold(laboratory, generate(seed, "pyiceberg"))


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds("java"))
def test_the_changes_of_a_table_with_delete_files_of_every_kind(laboratory: Laboratory, seed: int) -> None:
    hold(laboratory, generate(seed, "java"))


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds("sql"))
def test_the_changes_of_a_table_that_spark_writes(laboratory: Laboratory, seed: int) -> None:
    hold(laboratory, generate(seed, "sql"))


def hold(laboratory: Laboratory, history: History) -> None:
    """Try a history; what goes wrong is told by the smallest one that does."""
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
