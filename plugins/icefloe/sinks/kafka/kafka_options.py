"""The keys of ``sink`` for Kafka."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Self

from icefloe.documents import STRICT
from icefloe.errors import TerminalError
from icefloe.sinks.dead_letters import DeadLetterSettings
from icefloe.sinks.key_changes import Duplicates
from icefloe.sinks.sink import checked_options

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions:
    """The schema registry; ``url`` is ``mock://NAME`` in tests."""

    __pydantic_config__: ClassVar = STRICT

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """The keys besides ``type`` and ``conn_id``, as in docs/pipeline_keys.md.

    Attributes:
        topic: its placeholders are replaced already.
        state_topic: the compacted topic that says what is delivered; default: ``<topic>.icefloe``.
        transaction_topic: the topic of BEGIN and END of each batch, as Debezium has it; None: there is none.
        bootstrap_servers: None: the connection has them.
        partitions: of a new topic; None: the broker's default.
        replication_factor: of new topics; None: the broker's default.
        dead_letters: the folder of changes that are too large for the topic; None: they are an error.
    """

    __pydantic_config__: ClassVar = STRICT

    topic: str
    state_topic: str = ""
    transaction_topic: str | None = None
    bootstrap_servers: str | None = None
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    envelope: Literal["debezium", "plain"] = "debezium"
    format: Literal["json", "avro"] = "json"
    json_schema: bool = False
    schema_registry: RegistryOptions | None = None
    duplicates: Duplicates = "fail"
    tombstones: bool = True
    partitions: int | None = None
    replication_factor: int | None = None
    topic_settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    transaction_rows: int = 50_000
    transaction_bytes: int = 32 * 2**20
    transaction_seconds: int = 60
    dead_letters: DeadLetterSettings | None = None

    @classmethod
    def of(cls, written: Mapping[str, object]) -> Self:
        """The options of a mapping."""
        return checked_options(cls, written, sink_type="kafka", sizes=("transaction_bytes",))

    def __post_init__(self) -> None:
        """Refuses names that no topic has, keys that do not fit together, and numbers below 1."""
        topics = {"topic": self.topic, "state_topic": self.tokens, "transaction_topic": self.transaction_topic}
        names = {key: name for key, name in topics.items() if name is not None}
        for key, name in names.items():
            if name in (".", "..") or not _TOPIC.fullmatch(name):
                raise TerminalError(
                    f"sink.{key} is {name!r}, which is no name of a topic: use up to 249 letters, digits, dots, _ and "
                    "-",
                    key=f"sink.{key}",
                )
        if len({*names.values()}) < len(names):
            raise TerminalError(
                f"sink.topic, sink.state_topic and sink.transaction_topic name {self.topic} twice: give each a name of "
                "its own",
                key="sink.topic",
            )
        if (self.format == "avro") != (self.schema_registry is not None):
            raise TerminalError(
                f"sink.format is {self.format}, which does not fit sink.schema_registry: give both format: avro and "
                "schema_registry, or neither",
                key="sink.schema_registry",
            )
        counts = ("transaction_rows", "transaction_bytes", "transaction_seconds", "partitions", "replication_factor")
        for key in counts:
            number = getattr(self, key)
            if number is not None and number < 1:
                raise TerminalError(f"sink.{key} is {number}: give a number above 0", key=f"sink.{key}")

    @property
    def tokens(self) -> str:
        """The name of the state topic."""
        return self.state_topic or f"{self.topic}.icefloe"

    @property
    def has_schemas(self) -> bool:
        """True if messages carry their schemas or name them."""
        return self.format == "avro" or self.json_schema
