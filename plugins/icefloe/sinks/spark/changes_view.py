"""The Spark session of one try, with the changes of a batch as the view ``changes``."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.parquet_files import plain_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

VIEW: Final = "changes"
_UTC: Final = {"spark.sql.session.timeZone": "UTC"}
"""Statements of ours compare times with literals."""


class ChangesView:
    """A session of its own in the application of the phase: its views and settings end with it."""

    def __init__(self, session: "SparkSession", changes: "DataFrame | None" = None) -> None:
        self.session = session
        self._changes = changes

    @classmethod
    def open(cls, batch: ProvenBatch, part: StagedPart, *, conf: Mapping[str, str] | None = None) -> Self:
        """The session, whose view Spark reads from the staged files by itself.

        Args:
            conf: settings of the session; times are in UTC unless it says otherwise.

        Raises:
            TransientError: the files have other rows than were proven.
        """
        from pyspark.errors import AnalysisException
        from pyspark.sql.pandas.types import from_arrow_schema

        session = new_session(conf or {})
        with spark_errors("read the staged changes"):
            schema = from_arrow_schema(plain_schema(batch.given_schema), prefer_timestamp_ntz=True)
            urls = [_readable(url) for url in part.urls]
            # Whatever spark.conf says of files from before 1582: these are icefloe's own.
            reader = session.read.schema(schema).option("datetimeRebaseMode", "CORRECTED")
            try:
                staged = reader.parquet(*urls) if urls else session.createDataFrame([], schema)
                count = staged.count()
            except AnalysisException as cause:
                if cause.getCondition() != "PATH_NOT_FOUND":
                    raise
                count = 0
            if count != part.rows:
                raise TransientError(
                    f"Spark reads {count} of the {part.rows} proven changes of batch {batch.batch_number}: its staged "
                    "files were deleted or cut; run again, and they are written again"
                )
            changes = _with_uuids(_given(staged, batch), batch.given_schema)
            changes.createOrReplaceTempView(VIEW)
        return cls(session, changes)

    def complete_structs(self, target: str) -> None:
        """Give the structs of the changes what they lack of the target's fields, as null: Spark takes whole ones only.

        Args:
            target: a table as SQL has it, in whose order the fields are then.
        """
        from pyspark.sql.types import StructField, StructType

        if self._changes is None:
            raise ValueError("there is no view")
        with spark_errors(f"compare the changes with {target}"):
            kinds = {each.name: each.dataType for each in self.session.table(target).schema}
            whole = [
                StructField(each.name, _completed(each.dataType, kinds.get(each.name, each.dataType)), each.nullable)
                for each in self._changes.schema
            ]
            self._changes.to(StructType(whole)).createOrReplaceTempView(VIEW)

    def run(self, statement: str, *, doing: str = "run the statement of the sink") -> None:
        """Run one statement."""
        with spark_errors(doing):
            self.session.sql(statement).collect()

    def rows(self, query: str, *, doing: str = "look at the changes") -> list[Any]:
        """The rows of a query, which are few."""
        with spark_errors(doing):
            return self.session.sql(query).collect()

    def keep(self, query: str, name: str) -> None:
        """Make a view of a query."""
        with spark_errors("compare the changes with the table"):
            self.session.sql(query).createOrReplaceTempView(name)


def refuse_types(batch: ProvenBatch, is_refused: Callable[[pa.DataType], bool], fault: str) -> None:
    """Raise if a column is, or holds, a value of such a type."""
    for each in batch.shown_schema:
        if _holds(each.type, is_refused):
            raise TerminalError(
                f"column {each.name} of table {batch.origin.table} has the type {fault}; leave it out of columns",
                key="columns",
            )


def refuse_times(batch: ProvenBatch) -> None:
    """Raise if a column has times of day."""
    refuse_types(batch, pa.types.is_time, "time, which Spark does not read")


def _holds(kind: pa.DataType, is_sought: Callable[[pa.DataType], bool]) -> bool:
    return is_sought(kind) or any(_holds(kind.field(n).type, is_sought) for n in range(kind.num_fields))


def new_session(conf: Mapping[str, str]) -> "SparkSession":
    """A session of the application that this process is the driver of."""
    from pyspark.sql import SparkSession

    refuse_without_spark()
    with spark_errors("begin a session"):
        session = SparkSession.builder.getOrCreate().newSession()
        for key, value in {**_UTC, **conf}.items():
            session.conf.set(key, value)
        return session


def refuse_without_spark() -> None:
    """Raise outside of a Spark application."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:  # noqa: SLF001 - getOrCreate would start one without spark.conf
        raise TerminalError(
            "Spark writes this sink, of type spark or a table of format version 3, and this process is no Spark "
            "application: run the pipeline with engine: spark, and the table's catalog in spark.conf; icefloe deliver "
            "cannot write to it",
            key="engine",
        )


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """Turn an error of Spark into one sentence; one of the statement itself is permanent."""
    from py4j.protocol import Py4JJavaError
    from pyspark import errors as spark

    try:
        yield
    except IcefloeError:
        raise
    except (
        spark.AnalysisException, spark.ArithmeticException, spark.DateTimeException, spark.IllegalArgumentException,
        spark.NumberFormatException, spark.PySparkTypeError, spark.SparkRuntimeException,
        spark.UnsupportedOperationException,
    ) as cause:  # fmt: skip
        raise TerminalError(
            f"Spark cannot {doing}: {one_line(cause)}; correct the sink, the columns or spark.conf"
        ) from cause
    except (spark.PySparkException, Py4JJavaError) as cause:
        raise TransientError(f"Spark failed to {doing}: {one_line(cause)}; run again") from cause


def sql_name(*names: str) -> str:
    """A name of several parts as SQL has it.

    >>> sql_name("lake", "a`b")
    '`lake`.`a``b`'
    """
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def _completed(kind: "DataType", whole: "DataType") -> "DataType":
    """A type with the fields of structs that only ``whole`` has; fields that ``whole`` lacks stay, at the end."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType) and isinstance(whole, StructType):
        ours = {each.name: each for each in kind}
        names = dict.fromkeys([*whole.names, *kind.names])
        return StructType(
            [
                StructField(name, _completed(ours[name].dataType, whole[name].dataType), ours[name].nullable)
                if name in ours and name in whole.names
                else ours.get(name) or StructField(name, whole[name].dataType)
                for name in names
            ]
        )
    if isinstance(kind, ArrayType) and isinstance(whole, ArrayType):
        return ArrayType(_completed(kind.elementType, whole.elementType), kind.containsNull)
    if isinstance(kind, MapType) and isinstance(whole, MapType):
        return MapType(kind.keyType, _completed(kind.valueType, whole.valueType), kind.valueContainsNull)
    return kind


def _given(staged: "DataFrame", batch: ProvenBatch) -> "DataFrame":
    """The rows that the sink is given, of those that are staged."""
    if batch.changes == "upsert":
        return staged.where(f"{ChangeColumns.TYPE} <> '{ChangeType.UPDATE_BEFORE.name}'")
    if batch.changes == "append_only":
        removing = staged.where(f"{ChangeColumns.TYPE} <> '{ChangeType.INSERT.name}'").select(ChangeColumns.ORDINAL)
        kept = staged.join(removing.distinct(), ChangeColumns.ORDINAL, "left_anti")
        return kept.select(*map(sql_name, staged.columns))
    return staged


def _with_uuids(changes: "DataFrame", schema: pa.Schema) -> "DataFrame":
    """The changes with uuids as text, as Spark has those of Iceberg; the files have their bytes."""
    texts = {each.name: _texts(changes[sql_name(each.name)], each.type) for each in schema if _holds_uuid(each.type)}
    return changes.withColumns(texts)


def _texts(column: "Column", kind: pa.DataType) -> "Column":
    from pyspark.sql import functions as sql

    if not _holds_uuid(kind):
        return column
    if pa.types.is_struct(kind):
        fields = [_texts(column.getField(each.name), each.type).alias(each.name) for each in kind]
        return sql.when(column.isNotNull(), sql.struct(*fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return sql.transform(column, lambda each: _texts(each, kind.value_type))
    if pa.types.is_map(kind):
        pairs = pa.struct([kind.key_field, kind.item_field])
        return sql.map_from_entries(sql.transform(sql.map_entries(column), lambda each: _texts(each, pairs)))
    return sql.regexp_replace(sql.lower(sql.hex(column)), "^(.{8})(.{4})(.{4})(.{4})", "$1-$2-$3-$4-")


def _holds_uuid(kind: pa.DataType) -> bool:
    return _holds(kind, lambda each: each == pa.uuid())


def _readable(url: str) -> str:
    """A URL as Hadoop names it."""
    return url.replace("s3://", "s3a://", 1) if url.startswith("s3://") else url
