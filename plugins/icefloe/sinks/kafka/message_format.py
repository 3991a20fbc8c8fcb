"""The messages that a sink's options ask for: how they are written, and how they are read back."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

import pyarrow as pa
from confluent_kafka import Message

from icefloe.errors import TerminalError, one_line
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.kafka.avro_encoder import AvroEncoder
from icefloe.sinks.kafka.avro_registry import AvroRegistry
from icefloe.sinks.kafka.avro_schemas import to_avro
from icefloe.sinks.kafka.connect_schemas import connect_schemas, struct_schema
from icefloe.sinks.kafka.encoder import Encoder
from icefloe.sinks.kafka.json_encoder import DebeziumJson, PlainJson
from icefloe.sinks.kafka.json_texts import JsonForm, row_texts
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.retained import RetainedChanges, batch_of, is_change, json_payload, key_text
from icefloe.sinks.kafka.row_keys import key_rows, widened
from icefloe.sinks.sink import SchemaOf


@dataclass(kw_only=True)
class MessageFormat:
    """Envelope and format of the messages of one topic."""

    options: KafkaOptions
    clients: KafkaClients

    def check(self) -> None:
        """Ask the registry, if messages need one; errors as `AvroRegistry.check`."""
        if self._is_avro:
            self._registry.check()

    def encoder(self, batch: ProvenBatch) -> Encoder:
        """Writes the messages of a batch.

        Raises:
            TerminalError: a column or the registry refuses.
        """
        schemas = connect_schemas(batch, is_debezium=self._is_debezium) if self.options.has_schemas else None
        kind = DebeziumJson if self._is_debezium else PlainJson
        if not self._is_avro or schemas is None:
            return kind(batch, self._form, schemas)
        return AvroEncoder(self._registry, kind(batch, self._form, None), schemas)

    def changes(self, schema: pa.Schema) -> RetainedChanges:
        """Reads messages back."""
        if self._is_avro:
            return RetainedChanges(schema, JsonForm.AVRO, self._registry.read, is_debezium=self._is_debezium)
        payload = partial(json_payload, has_schema=self.options.json_schema)
        return RetainedChanges(schema, self._form, payload, is_debezium=self._is_debezium)

    def changes_as_written(
        self, messages: Iterable[Message], schema_of: SchemaOf, *, first_batch: int
    ) -> Iterator[pa.RecordBatch]:
        """Reads messages back, each by the schema of its batch; arguments as in `Sink`."""
        any_columns = self.changes(pa.schema([]))
        for number, group in groupby(filter(is_change, messages), batch_of):
            if number >= first_batch:
                found = list(group)
                # Avro has other names for columns, which say nothing about those of the table.
                names = () if self._is_avro else any_columns.names(found)
                try:
                    rows = self.changes(schema_of(number, names)).rows(found)
                except (ArithmeticError, AttributeError, TypeError, ValueError) as cause:
                    raise TerminalError(
                        f"batch {number} in topic {self.options.topic} has values of other types than the columns of "
                        f"these names ({one_line(cause)}), and the snapshot with its schema has expired: it can no "
                        "longer be verified",
                        batch_number=number,
                    ) from cause
                yield rows

    def keys(self, rows: pa.RecordBatch) -> set[str]:
        """The keys of rows of the identifier columns, as messages have them."""
        schema = widened(rows.schema)
        found = [json.loads(text) for text in row_texts(key_rows(rows, schema), self._form).to_pylist()]
        if self._is_avro:
            found = [to_avro(key, struct_schema(schema, name="key")) for key in found]
        return {key_text(key) for key in found}

    @cached_property
    def _registry(self) -> AvroRegistry:
        return AvroRegistry(self.options.topic, self.clients.registry)

    @property
    def _is_avro(self) -> bool:
        return self.options.format == "avro"

    @property
    def _is_debezium(self) -> bool:
        return self.options.envelope == "debezium"

    @property
    def _form(self) -> JsonForm:
        if self.options.has_schemas:
            return JsonForm.CONNECT
        return JsonForm.DEBEZIUM if self._is_debezium else JsonForm.READABLE
