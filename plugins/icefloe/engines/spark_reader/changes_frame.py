"""A DataFrame of changes, computed lazily by executors."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from icefloe.batch.changelog_scan import ChangelogScan
from icefloe.engines.spark.engine import CheckedTask
from icefloe.engines.spark.submit import build_package_zip
from icefloe.engines.spark_reader.spark_rows import rows_for_spark, spark_schema
from icefloe.errors import TerminalError, UsageError
from icefloe.flow import Route
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.table import Table
from icefloe.redacted_output import outgoing_errors, outgoing_logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkReader"]

_PARCELS: Final = "recipient int, sender int, number int, content binary"
_ORDER: Final = ("recipient", "sender", "number")

ArrowTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SparkReader:
    """The functions of `icefloe.spark`."""

    @staticmethod
    def read_changes(
        spark: "SparkSession",
        table: Table | str,
        after_snapshot_id: int | None = None,
        up_to_snapshot_id: int | None = None,
        *,
        catalog: str | Mapping[str, str] = "default",
        **options: Any,
    ) -> "DataFrame":
        """The row-level changes of a range of a table's snapshots, computed by the executors of a session.

        The range is planned when this is called; data files are read by each action. Rows that a range only adds are
        not shuffled. Those that it changes otherwise go through Spark's own shuffle, compressed, in the session's
        number of partitions (``spark.sql.shuffle.partitions``).

        Each task proves its part when it is done: it read all rows of its files; it heard from all tasks before it; its
        changes add up to the sums that came with their rows. So an action fails if a row was lost or made up on its
        way. If Spark brings nothing of a reduce partition to any task, no task misses it. An action that ends early,
        such as ``show``, proves the tasks that it let finish.

        Args:
            spark: a session of Spark 3.5 or later. Its workers need the Python libraries of this process; icefloe
                itself is sent to them. A task takes at most 1 GiB of Python's memory, and local disk.
            table: of PyIceberg, or ``namespace.name`` in a catalog. Executors read its files with the credentials of
                its ``io``, which are sent to them.
            after_snapshot_id: exclusive; None: from the start of the table's history.
            up_to_snapshot_id: inclusive; None: the head of the branch.
            catalog: of a table that is named: one of PyIceberg's configuration, or its properties.
            options: the other arguments of `icefloe.read_changes`.

        Returns:
            The rows of `icefloe.read_changes` in types of Spark, in no order. Uuids are text.

        Raises:
            UsageError: as `icefloe.read_changes` does, or a column of a type that Spark lacks.
        """
        scan = ChangelogScan.requested(
            load_table(catalog, table) if isinstance(table, str) else table,
            after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=up_to_snapshot_id,
            cores=_cores(spark),
            **options,
        )
        schema, tasks, plan = spark_schema(scan.schema), scan.tasks, scan.planned.plan
        if plan.route is Route.NOTHING_TO_DO:
            return spark.createDataFrame([], schema)
        _library_sent(_context(spark) or spark)
        numbers = spark.range(0, plan.num_map_tasks, 1, plan.num_map_tasks)
        if plan.route is Route.INSERT_ONLY:
            return numbers.mapInArrow(_task(partial(_changes, partial(_each, tasks.inserted, tasks.map_ids))), schema)
        parcels = numbers.mapInArrow(_task(partial(_each, tasks.mapped, tasks.map_ids)), _PARCELS)
        if plan.hash_partitions:
            parcels = _shuffled(parcels).mapInArrow(_task(tasks.moved), _PARCELS)
        return _shuffled(parcels).mapInArrow(_task(partial(_changes, tasks.reduced)), schema)

    @staticmethod
    def register(spark: "SparkSession") -> None:
        """Makes changes a data source of the session: ``spark.read.format("icefloe").load("namespace.name")``.

        Options are ``table`` (or the argument of ``load``), ``catalog``, the properties of an unnamed catalog as
        ``catalog.uri`` and the like, and the arguments of `icefloe.read_changes` as text: times with an offset, lists
        with commas. The range is planned by ``load``. A source cannot shuffle: a range that removes rows is one task,
        which `read_changes` divides among executors.

        Raises:
            UsageError: a Spark before version 4, which has no data sources in Python.
        """
        try:
            # The class of a data source derives from one that Spark 3.5 lacks.
            from icefloe.engines.spark_reader.data_source import ChangesSource
        except ImportError as cause:
            raise UsageError(
                f"Spark {spark.version} has no data sources in Python, which came with Spark 4: use "
                "icefloe.spark.read_changes"
            ) from cause
        _library_sent(_context(spark) or spark)
        spark.dataSource.register(ChangesSource)


def _shuffled(parcels: "DataFrame") -> "DataFrame":
    """Parcels by recipient, in as many partitions as a shuffle of the session has, of which Spark joins small ones."""
    return parcels.repartition("recipient").sortWithinPartitions(*_ORDER)


def _each(
    function: Callable[[int], Iterator[pa.RecordBatch]], map_ids: Sequence[int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from function(map_ids[number])


def _changes(function: ArrowTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return rows_for_spark(function(batches))


def _task(function: ArrowTask) -> ArrowTask:
    """The function for workers, which it reaches if they have the libraries of this process."""
    call = CheckedTask(function)

    def apply(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with outgoing_logs(), outgoing_errors():
            found = call(batches)
            if isinstance(found, TerminalError):
                raise found
            yield from found

    return apply


def _cores(spark: "SparkSession") -> int:
    context = _context(spark)
    return 1 if context is None else int(context.defaultParallelism)


def _context(spark: "SparkSession") -> Any:
    """None: the session is one of Spark Connect."""
    return getattr(spark, "sparkContext", None)


@cache
def _library_sent(session: Any) -> TemporaryDirectory[str]:
    """Sends the library to workers once; Spark reads the file as long as the session lasts."""
    folder = TemporaryDirectory(prefix="icefloe-spark-")
    path = str(build_package_zip(Path(folder.name)))
    if hasattr(session, "addPyFile"):
        session.addPyFile(path)
    else:
        session.addArtifacts(path, pyfile=True)
    return folder
