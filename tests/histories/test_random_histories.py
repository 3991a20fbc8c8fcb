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

PYICEBERG_HISTORIES = 150
JAVA_HISTORIES = 100
SQL_HISTORIES = 40
OF_EVERY_CHANGE = {"pyiceberg": 20, "java": 15, "sql": 6}
"""How many of them `make test` tries; `make extended` tries the others."""
SHRINKING_ATTEMPTS = 60
"""A test must end; `make soak` shrinks further."""


def seeds(writer: str, count: int) -> list[Any]:
    few = OF_EVERY_CHANGE[writer]
    return [*range(few), *map(extended, range(few, count))]


@pytest.mark.parametrize("seed", seeds("pyiceberg", PYICEBERG_HISTORIES))
def test_the_changes_of_a_table_that_pyiceberg_writes(laboratory: Laboratory, seed: int) -> None:
    hold(laboratory, generate(seed, "pyiceberg"))


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds("java", JAVA_HISTORIES))
def test_the_changes_of_a_table_with_delete_files_of_every_kind(laboratory: Laboratory, seed: int) -> None:
    hold(laboratory, generate(seed, "java"))


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds("sql", SQL_HISTORIES))
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
    if tally.histories < PYICEBERG_HISTORIES + JAVA_HISTORIES + SQL_HISTORIES - sum(OF_EVERY_CHANGE.values()):
        missing("histories of this file were left out", "run all of it in one process")
    operations = {"deliver", *PyIcebergBench.operations, *JavaBench.operations}
    assert sorted(operations - set(tally.applied)) == []
    assert tally.batches > 100
