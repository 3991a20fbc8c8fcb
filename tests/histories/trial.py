"""One history from beginning to end: applied, followed by a pipeline, asked about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from histories.bench import Bench
from histories.deliveries import Deliveries
from histories.examination import Examination, examine
from histories.history import History
from histories.java_bench import JavaBench
from histories.java_operations import JAVA_OPERATIONS
from histories.pyiceberg_bench import PyIcebergBench
from histories.shrinking import shrink
from histories.sql_operations import SQL_OPERATIONS
from histories.table_changes import TABLE_CHANGES
from support.catalogs import open_sql_catalog
from support.nodes.machines_in_turn import MachinesInTurn
from support.spark.spark_lab import SparkLab

__all__ = ["Laboratory", "Tally"]

_FOLLOWED: Final = 0.35
"""The share of histories that a pipeline follows while they happen."""
_TURNS: Final = ("a machine loses its map outputs", "storage", "machines", "machines")
"""What becomes of the map outputs of a history that is followed, by its seed."""

JavaBench.operations = {**TABLE_CHANGES, **JAVA_OPERATIONS, **SQL_OPERATIONS}


@dataclass(slots=True)
class Tally:
    """The work of a laboratory."""

    histories: int = 0
    questions: int = 0
    changes: int = 0
    batches: int = 0
    node_requests: int = 0
    applied: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    not_built: Counter[str] = field(default_factory=Counter)

    def add(self, bench: Bench, examination: Examination, batches: int) -> None:
        """Count one history."""
        self.histories += 1
        self.questions += examination.questions
        self.changes += examination.changes
        self.batches += batches
        self.applied += bench.applied
        self.refused += bench.refused
        self.not_built += examination.not_built


class Laboratory:
    """The laboratory of histories; ``tally`` counts them and their work.

    Args:
        folder: for pipelines and PyIceberg's tables.
        spark_lab: for histories of Java and Spark; started when the first one comes.
    """

    def __init__(self, folder: Path, spark_lab: Callable[[], SparkLab]) -> None:
        self._folder = folder
        self._start_spark = cache(spark_lab)
        self._numbers = count()
        self._machines: MachinesInTurn | None = None
        self.tally = Tally()
        self._catalog = open_sql_catalog("histories", folder)
        self._catalog.create_namespace_if_not_exists("db")

    def try_out(self, history: History, *, thorough: bool = False) -> None:
        """Apply a history to a new table and hold icefloe to it.

        Raises:
            WrongChangesError: icefloe is wrong.
        """
        random = Random(history.seed)
        bench = self.bench(history)
        deliveries = None
        if random.random() < _FOLLOWED:
            machines = self._machines_for(history)
            deliveries = Deliveries.begin(bench, self._folder / f"pipeline_{bench.identifier}", random, machines)
            bench.deliver = deliveries.catch_up
        for operation in history.operations:
            bench.apply(operation)
        if deliveries:
            deliveries.catch_up()
            deliveries.check()
        examination = examine(bench, random, thorough=thorough)
        self.tally.add(bench, examination, len(deliveries.reports) if deliveries else 0)
        self.tally.node_requests = self._machines.requests if self._machines else 0
        bench.discard()

    def close(self) -> None:
        """Ends the nodes, if there are any."""
        if self._machines:
            self._machines.close()

    def _machines_for(self, history: History) -> MachinesInTurn | None:
        """The machines that keep the map outputs of a history; None: the storage does.

        The seed alone decides, so that a history that is made smaller goes the same way.
        """
        turn = _TURNS[history.seed % len(_TURNS)]
        if turn == "storage":
            return None
        if self._machines is None:
            self._machines = MachinesInTurn(self._folder / "machines")
        self._machines.loses = turn != "machines"
        return self._machines

    def shrunken(self, history: History, error: Exception, *, thorough: bool = False, attempts: int = 200) -> History:
        """The smallest history found that goes wrong by the same type of error."""

        def is_wrong(candidate: History) -> bool:
            try:
                self.try_out(candidate, thorough=thorough)
            except type(error):
                return True
            except Exception:  # noqa: BLE001 - another failure is not the one that is being made smaller
                return False
            return False

        return shrink(history, is_wrong, attempts=attempts)

    def bench(self, history: History) -> Bench:
        """A new table of a history's shape, to which nothing was done yet."""
        name = f"h{next(self._numbers)}"
        if history.writer == "pyiceberg":
            return PyIcebergBench.create(self._catalog, f"db.{name}", history.shape)
        return JavaBench.create(self._start_spark(), f"history_{name}", history.shape)
