"""Batches into tables of Delta and into files, in a Spark application of its own: each line it prints is a scenario.

python -m spark.delta_scenarios FOLDER
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from demo.servers.jars import Jar
from icefloe.errors import TerminalError
from icefloe.sinks.sink import Sink, SupersededError
from icefloe.sinks.spark.changes_view import ChangesView
from icefloe.sinks.spark.other_targets import DeltaSink, SourceSink, Target
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.staged_history import FLIGHTS, StagedBatch, StagedHistory
from support.spark.spark_lab import spark_jars
from support.spark.staged_files import FromFiles

DELTA = Jar(group="io.delta", name="delta-spark_4.1_2.13", version="4.1.0")
COUNT = """
MERGE INTO {target} t
USING (SELECT word, sum(IF(_change_type IN ('INSERT', 'UPDATE_AFTER'), 1, -1)) AS n FROM changes GROUP BY word) c
ON t.word = c.word
WHEN MATCHED THEN UPDATE SET n = t.n + c.n WHEN NOT MATCHED THEN INSERT (word, n) VALUES (c.word, c.n)
"""


class Delta(FromFiles, DeltaSink):
    pass


class Blind(Delta):
    """Did not see the later commits, as a process that looked before them."""

    def _last_batch(self, view: ChangesView, application: str) -> tuple[int, str]:  # noqa: ARG002
        return -1, ""


class Source(FromFiles, SourceSink):
    pass


class Scenarios:
    """Each method gives a result that the test knows."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark = folder, spark

    def run(self) -> Iterator[tuple[str, Any]]:
        """Names and results."""
        for scenario in (
            self.merged,
            self.reshaped,
            self.drifted,
            self.counted,
            self.appended,
            self.late,
            self.superseded,
            self.planned_again,
            self.in_files,
        ):
            yield scenario.__name__, scenario()

    def merged(self) -> Any:
        history, bring = self._delta("merged", "id bigint, word string, number int", mode="merge")
        bring(*history.load({key: {"word": "a", "number": key} for key in range(6)}, batches=2))
        bring(history.change({1: None, 2: {"word": "x"}, 9: {"word": "new"}}, {2: {"word": "y"}, 4: None}))
        history.evolve(FLIGHTS.append(pa.field("more", pa.string())))
        bring(history.change({5: {"word": "b", "more": "m"}, 10: {"word": "c", "more": None}}), history.change())
        history.evolve(FLIGHTS.append(pa.field("last", pa.string())))
        bring(*history.load({7: {"word": "again", "last": "l"}}), repeats=1)
        bring(history.change({7: {"word": "z", "last": None}, 8: {"word": "w", "last": "n"}}))
        found = self._rows("merged", "id, word, number, last")
        return found == [dict(history.rows[key]) for key in sorted(history.rows)] or found

    def reshaped(self) -> Any:
        """Columns in another case, and a struct whose fields have another order."""
        history, bring = self._delta("reshaped", "ID bigint, at struct<b: string, a: string>", mode="merge")
        inner = pa.struct([("a", pa.string()), ("b", pa.string())])
        history.evolve(pa.schema([("id", pa.int64()), ("at", inner)]))
        bring(*history.load({1: {"at": {"a": "a", "b": "b"}}}))
        bring(history.change({2: {"at": {"a": "a", "b": "b"}}}))
        found = self._rows("reshaped", "ID AS id, at")
        return found == [dict(history.rows[key]) for key in sorted(history.rows)] or found

    def drifted(self) -> Any:
        history, bring = self._delta("drifted", "id bigint, word string, number int", mode="merge")
        bring(*history.load({1: {"word": "a"}}))
        self.spark.sql("DELETE FROM drifted")
        try:
            bring(history.change({1: {"word": "b"}}))
        except TerminalError as error:
            return "has drifted" in error.sentence
        return False

    def counted(self) -> Any:
        history, bring = self._delta("counted", "word string, n bigint", mode="statement", statement=COUNT)
        bring(*history.load({1: {"word": "a"}, 2: {"word": "a"}, 3: {"word": "b"}}))
        bring(history.change({1: {"word": "b"}}))
        return self._rows("counted", "word, n")

    def appended(self) -> Any:
        history, bring = self._delta("appended", "_batch bigint, id bigint", mode="append")
        bring(*history.load({1: {"word": "a"}, 2: {"word": "a"}}), history.change({1: {"word": "b"}}))
        return [tuple(row.values()) for row in self._rows("appended", "id, _batch, _change_type, word")]

    def late(self) -> Any:
        """Batches come once more after the next one, by a process that has looked before it."""
        history, bring = self._delta("late", "word string, n bigint", kind=Blind, mode="statement", statement=COUNT)
        [load] = history.load({1: {"word": "a"}})
        change = history.change({1: {"word": "b"}})
        bring(load, change, load, change, repeats=1)
        return self._rows("late", "word, n")

    def superseded(self) -> Any:
        """The same, by one that looks after it."""
        history, bring = self._delta("superseded", "word string, n bigint", mode="statement", statement=COUNT)
        [load] = history.load({1: {"word": "a"}})
        try:
            bring(load, history.change({1: {"word": "b"}}), load, repeats=1)
        except SupersededError:
            return True
        return False

    def planned_again(self) -> Any:
        """A batch with the number of the last one goes further."""
        history, bring = self._delta("planned", "word string, n bigint", mode="statement", statement=COUNT)
        bring(*history.load({1: {"word": "a"}}), staged := history.change({1: {"word": "b"}}))
        further = replace(staged.batch, up_to_snapshot_id=history.change({1: None}).batch.up_to_snapshot_id)
        try:
            bring(StagedBatch(batch=further, parts=staged.parts))
        except TerminalError as error:
            return "the checkpoint was restored" in error.sentence
        return False

    def in_files(self) -> Any:
        """At least once: a batch that comes twice is there twice."""
        target = Target(format="parquet", name="", mode="append", options={"path": f"{self.folder}/files"})
        history = StagedHistory()
        self._bring(lambda: Source(target), history.load({1: {"word": "a"}}), repeats=1)
        self._bring(lambda: Source(target), [history.change({1: {"word": "b"}})], repeats=2)
        found = self.spark.read.parquet(f"{self.folder}/files").groupBy("_batch").count().collect()
        return sorted(tuple(row) for row in found)

    def _delta(
        self, name: str, columns: str, *, kind: type[DeltaSink] = Delta, **keys: str
    ) -> tuple[StagedHistory, Callable[..., None]]:
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING delta")
        target = Target(**{"format": "delta", "name": f"spark_catalog.default.{name}", "options": {}, **keys})

        def bring(*batches: StagedBatch, repeats: int = 2) -> None:
            self._bring(lambda: kind(target), batches, repeats=repeats)

        return StagedHistory(), bring

    def _bring(self, sink: Callable[[], Sink], batches: Any, *, repeats: int) -> None:
        """Each batch is delivered so many times, by processes that know nothing of each other."""
        for batch in batches:
            for _ in range(repeats):
                DeliveringProcess(lambda _calls: sink()).run(batch, repeats=True)

    def _rows(self, table: str, columns: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            self.spark.sql(f"SELECT {columns} FROM {table} ORDER BY ALL").toArrow().to_pylist()
        )
        return found


def main(folder: Path) -> None:
    """Prints the result of each scenario."""
    builder = SparkSession.Builder().master("local[2]")
    conf = {
        "spark.jars": spark_jars(DELTA),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    for key, value in conf.items():
        builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        for name, result in Scenarios(folder, spark).run():
            print(json.dumps([name, result]))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
