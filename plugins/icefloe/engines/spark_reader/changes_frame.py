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
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.table import Table
from icefloe.redacted_output import outgoing_errors, outgoing_logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["spark_changes"]

_PARCELS: Final = "recipient int, sender int, number int, content binary"
_ORDER: Final = ("recipient", "sender", "number")

ArrowTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def spark_changes(
    spark: "SparkSession",
    table: Table | str,
    after_snapshot_id: int | None = None,
    up_to_snapshot_id: int | None = None,
    *,
    catalog: str | Mapping[str, str] = "default",
    **options: Any,
) -> "DataFrame":
    """The row-level changes of a range of a table's snapshots, computed by the executors of a session.

    The range is planned when this is called; data files are read by each action. If the range only adds rows, they are
    not shuffled. Spark's own shuffle takes the rows that changed otherwise, compressed. Every task proves its part
    before the last of its rows leaves it, so an action fails if any row was lost or made up.

    Args:
        spark: a session of Spark 3.5 or later. Its workers need the Python libraries of this process; icefloe itself is
            sent to them.
        table: of PyIceberg, or ``namespace.name`` in a catalog. Executors read its files with the credentials of its
            ``io``, which are sent to them.
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
        cores=(cores := _cores(spark)),
        **options,
    )
    schema, tasks, plan = spark_schema(scan.schema), scan.tasks, scan.planned.plan
    if plan.route is Route.NOTHING_TO_DO:
        return spark.createDataFrame([], schema)
    _library_sent(_context(spark) or spark)
    numbers = spark.range(0, plan.num_map_tasks, 1, plan.num_map_tasks)
    if plan.route is Route.INSERT_ONLY:
        return numbers.mapInArrow(_task(partial(_changes, partial(_each, tasks.inserted, tasks.map_ids))), schema)
    # Recipients go to partitions by their hashes: there are more of them, so that no partition has most rows.
    shuffled = min(plan.num_partitions, max(2 * cores, plan.num_map_tasks))
    parcels = numbers.mapInArrow(_task(partial(_each, tasks.mapped, tasks.map_ids)), _PARCELS)
    if plan.hash_partitions:
        parcels = parcels.repartition(shuffled, "recipient").sortWithinPartitions(*_ORDER)
        parcels = parcels.mapInArrow(_task(tasks.moved), _PARCELS)
    parcels = parcels.repartition(shuffled, "recipient").sortWithinPartitions(*_ORDER)
    return parcels.mapInArrow(_task(partial(_changes, tasks.reduced)), schema)


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
