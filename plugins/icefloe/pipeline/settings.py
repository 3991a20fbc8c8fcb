"""The mappings inside a pipeline file, typed; docs/pipeline_keys.md has their keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, Self, TypeAlias

from icefloe.pipeline.environment import has_reference
from icefloe.units import parse_bytes, parse_seconds

__all__ = [
    "ChangesOption",
    "CommitGroupsOption",
    "OutputOption",
    "RollbackOption",
    "ShuffleSettings",
    "SinkSettings",
    "find_sink",
]

ChangesOption: TypeAlias = Literal["each", "net"]
"""``each``: the changes of every step. ``net``: the last state of each identity against its first."""

OutputOption: TypeAlias = Literal["each", "net", "upsert", "append_only"]
"""``upsert``: net changes without the rows before updates. ``append_only``: inserts alone, of every step. Both are
computed as ``ChangesOption`` says, proven as a whole, and only then reduced."""

RemovedRowsOption: TypeAlias = Literal["fail", "skip"]
"""If a batch of ``append_only`` removes rows, stop, or leave out every step that does."""

CommitGroupsOption: TypeAlias = Literal["fuse", "split"]
"""``fuse``: the snapshots of one commit are one step. ``split``: each snapshot is a step."""

FollowOption: TypeAlias = Literal["lineage", "log"]
"""``lineage``: the commits that lead to the head. ``log``: every state that readers saw, each a step."""

RollbackOption: TypeAlias = Literal["compensate", "fail"]
"""If a branch left the cursor's snapshot behind, deliver the difference or stop."""

SummaryMismatchOption: TypeAlias = Literal["fail", "warn"]
"""If a batch and the snapshots' summaries disagree, stop or warn."""

DefaultArgument: TypeAlias = str | int | float | bool | timedelta
"""A value of ``default_args``, ready for Airflow: durations are timedeltas."""

_DURATIONS: Final = ("retry_delay", "max_retry_delay", "execution_timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A query whose rows are the wrong changes of a batch: none, and the batch passes."""

    name: str
    query: str
    on_failure: Literal["fail", "warn"] = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleSettings:
    """Way and sizes of the shuffle.

    Attributes:
        target_size_bytes: of one reduce range, compressed.
        map_task_bytes: file bytes of one map task.
        memory_bytes: of one task.
    """

    transfer: Literal["store", "nodes"] = "store"
    partitions: int | Literal["auto"] = "auto"
    target_size_bytes: int = 64 * 2**20
    map_task_bytes: int = 256 * 2**20
    memory_bytes: int = 2**30

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """The settings of a checked mapping."""
        sizes = {key: read_size(value) for key, value in written.items() if key not in ("partitions", "transfer")}
        return cls(
            transfer=written.get("transfer", "store"), partitions=_whole(written.get("partitions", "auto")), **sizes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Connection and properties of Spark, without secrets."""

    conn_id: str = "spark_default"
    conf: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None


_EDITABLE: Final = frozenset(
    {"url", "catalog", "bootstrap_servers", "schema_registry", "dead_letters", "duplicates", "limit", "shards",
     "replicas", "settings", "partitions", "replication_factor", "topic_settings", "transaction_rows", "statement",
     "purge_after"}
)  # fmt: skip
"""Keys of sinks that say how to reach the destination, or help a batch that it refuses; so do all sizes and times."""


PLAIN_FORM: Final = {"format": "parquet", "columns_as": "icefloe", "order_by": (), "partition_by": ()}
"""Keys of a files sink, with the values that tasks write by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """The sink of the changes.

    Attributes:
        type: ``files``, or the name of a sink that batches are delivered to.
        path: of the files sink, without a final slash, otherwise empty.
        conn_id: None: the machine's own credentials.
        order_by: of the files sink, dotted names; empty: changes are as tasks write them.
        partition_by: of the files sink, names of columns by whose values files have folders.
        options: the keys of the other sinks, as written.
    """

    type: str
    path: str = ""
    format: str = "parquet"
    conn_id: str | None = None
    target_file_bytes: int = 128 * 2**20
    columns_as: str = "icefloe"
    order_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Self:
        """The settings of a checked mapping."""
        if written["type"] != "files":
            options = {key: value for key, value in written.items() if key not in ("type", "conn_id")}
            return cls(type=written["type"], conn_id=written.get("conn_id"), options=options)
        given: dict[str, Any] = {key: tuple(written.get(key, ())) for key in ("order_by", "partition_by")}
        given["path"] = read_url(written["path"])
        if "target_file_bytes" in written:
            given["target_file_bytes"] = read_size(written["target_file_bytes"])
        return cls(**{**written, **given})

    @property
    def form(self) -> Mapping[str, Any]:
        """The keys of a files sink for which a batch is staged first, as `PLAIN_FORM` has them."""
        return {key: found for key, plain in PLAIN_FORM.items() if (found := getattr(self, key)) != plain}

    @property
    def sorted_columns(self) -> tuple[str, ...]:
        """Dotted names of the columns in whose order changes arrive."""
        return tuple(self.options.get("order_by", ())) if self.type == "iceberg" else self.order_by

    @property
    def is_history(self) -> bool:
        """True if every state counts that readers saw, with its time."""
        return self.type == "iceberg" and self.options.get("mode") == "history"

    @property
    def has_catalog(self) -> bool:
        """True if the target is a table in a catalog, by default in the pipeline's."""
        return self.type == "iceberg" or (self.needs_spark and self.options.get("format", "iceberg") == "iceberg")

    @property
    def needs_spark(self) -> bool:
        """True if a batch is delivered inside of a Spark application, whatever its size."""
        return self.type == "spark"

    def named(self, *, pipeline: str, table: str, catalog: Any = None) -> Self:
        """The settings with the names of pipeline and table in place of their placeholders, and a table's catalog.

        >>> sink = SinkSettings(type="kafka", options={"topic": "lake.{namespace}.{table}"})
        >>> sink.named(pipeline="flights_changes", table="nyc.flights").options
        {'topic': 'lake.nyc.flights'}
        """
        namespace, _, name = table.rpartition(".")
        names = {"{pipeline}": pipeline, "{namespace}": namespace, "{table}": name}
        options = {key: _replaced(value, names) for key, value in self.options.items()}
        return replace(self, options={"catalog": catalog, **options} if self.has_catalog else options)

    @property
    def destination(self) -> Mapping[str, Any]:
        """The options that decide on place and form of changes; the others may be edited, also to help an open batch.

        >>> SinkSettings(type="opensearch", options={"index": "flights", "bulk_bytes": "5MiB"}).destination
        {'index': 'flights'}
        """
        return {
            key: value
            for key, value in self.options.items()
            if key not in _EDITABLE and not key.endswith(("_bytes", "_seconds"))
        }


def _replaced(value: object, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for placeholder, name in names.items():
            value = value.replace(placeholder, name)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogSettings:
    """The place of staged batches, and how long they stay."""

    path: str | None = None  # URL without a final slash; None: ``staged/<name>`` below the storage
    # Seconds until a delivered batch may be deleted; None: for ever with a ``path``, otherwise until the next delivery.
    keep: float | None = None

    @classmethod
    def of(cls, written: Mapping[str, Any] | None) -> Self | None:
        """The settings of a checked mapping."""
        if written is None:
            return None
        keep = written.get("keep")
        return cls(
            path=read_url(written.get("path")),
            keep=keep if keep is None or has_reference(keep) else parse_seconds(keep),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetSchedule:
    """A schedule by the events of an Airflow asset."""

    asset: str


def read_size(value: object) -> Any:
    """A size in bytes; ``${NAME}`` stays."""
    return value if value is None or has_reference(value) else parse_bytes(_whole(value))


def read_url(value: Any) -> Any:
    """A URL without a final slash.

    >>> read_url("s3://lake/changes/"), read_url("file:///")
    ('s3://lake/changes', 'file:///')
    """
    return value if value is None or value.endswith(":///") else value.rstrip("/")


def read_default_args(value: Mapping[str, Any]) -> dict[str, DefaultArgument]:
    """Airflow's arguments with timedeltas; a back-off of true is the factor 2."""
    found: dict[str, DefaultArgument] = {}
    for key, argument in value.items():
        if key in _DURATIONS:
            found[key] = timedelta(seconds=parse_seconds(argument))
        elif key == "retry_exponential_backoff":
            found[key] = 2.0 * argument if isinstance(argument, bool) else float(argument)
        else:
            found[key] = _whole(argument)
    return found


def _whole(value: object) -> Any:
    """3.0 as an int, as JSON Schema takes it."""
    return int(value) if isinstance(value, float) else value


_GROUP: Final = "icefloe.sinks"
"""The group of entry points in which other packages register their sinks: the name is ``sink.type``."""


_MODULES: Final = {
    "iceberg": "icefloe.sinks.iceberg.iceberg_sink:open_iceberg_sink",
    "opensearch": "icefloe.sinks.opensearch.opensearch_sink:open_opensearch_sink",
    "kafka": "icefloe.sinks.kafka.kafka_sink:open_kafka_sink",
    "spark": "icefloe.sinks.spark.spark_sink:open_spark_sink",
    "postgres": "icefloe.sinks.postgres.postgres_sink:open_postgres_sink",
}
OUR_SINKS: Final = ("files", *_MODULES)
"""``sink.type`` of those that need no package; the files are what tasks write anyway."""


def find_sink(sink_type: str) -> EntryPoint | None:
    """The function that opens a sink, ours or of an installed package; None if there is none."""
    if sink_type in _MODULES:
        return EntryPoint(sink_type, _MODULES[sink_type], _GROUP)
    return next(iter(entry_points(group=_GROUP, name=sink_type)), None)
