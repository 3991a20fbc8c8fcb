"""Mutations of the kafka sink: transactions, fences, claims, and topics that change; a real broker shows them."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["TOPICS"]

_SINK: Final = ("tests/servers/test_kafka_sink.py",)
_LOADS: Final = ("tests/servers/test_kafka_loads.py",)
_OTHER_TOPICS: Final = ("tests/servers/test_kafka_changed_topics.py",)
_BATCHES: Final = "sinks/kafka/topic_batches.py"
_CHANGED: Final = "sinks/kafka/changed_topic.py"
_LOGINS: Final = ("tests/sinks/kafka/test_refused_logins.py",)
_REGISTRIES: Final = "tests/sinks/kafka/test_avro_registry.py"
_PART: Final = "sinks/kafka/part_delivery.py"

TOPICS: Final = (
    Mutation(
        name="rows of a part that are in the topic are sent again",
        path=_PART,
        before="event_rows(self.part.read(), skip_rows=done.rows,",
        after="event_rows(self.part.read(), skip_rows=0,",
        suite=_SINK,
    ),
    Mutation(
        name="a part that is in the topic as a whole is sent again",
        path=_PART,
        before="if (found.generation, found.batch_number) == (self.begun.generation, self.batch.batch_number):",
        after="if False:",
        suite=_SINK,
    ),
    Mutation(
        name="a part of a late batch is sent",
        path=_PART,
        before="        if self._is_superseded(state):\n            raise SupersededError(",
        after="        if False:\n            raise SupersededError(",
        further=(
            Edit(
                path=_BATCHES,
                before="    if _order(last) > _order(this):\n        raise",
                after="    if False:\n        raise",
            ),
        ),
        suite=_SINK,
    ),
    Mutation(
        name="parts of a batch that never ended may write after the next one has begun",
        path=_BATCHES,
        before="    _fence_parts(clients, options, log.look() or TopicState())\n",
        after="",
        suite=("tests/servers/test_kafka_zombies.py::test_a_batch_after_one_that_never_ended_keeps_its_processes_out",),
    ),
    Mutation(
        name="keys move to other partitions in the middle of a batch",
        path=_PART,
        before="        if partitions != self.begun.partitions:",
        after="        if False:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="keys move to other partitions between two batches",
        path=_CHANGED,
        before="    if last.partitions != new.partitions:",
        after="    if False:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="the keys of a column that was promoted move to other partitions",
        path=_CHANGED,
        before="    if promoted:",
        after="    if False:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="keys with another schema id move to other partitions between two batches",
        path=_CHANGED,
        before="last.key_schema_id not in (None, new.key_schema_id):",
        after="False:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="keys with another schema id move to other partitions in the middle of a batch",
        path=_PART,
        before="        if self.begun.key_schema_id not in (None, self.encoder.key_schema_id):",
        after="        if False:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="a topic of an earlier release is refused for the schema id that it does not have",
        path=_CHANGED,
        before="last.key_schema_id not in (None, new.key_schema_id):",
        after="last.key_schema_id != new.key_schema_id:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="a schema with another precision does not move keys",
        path="sinks/kafka/row_keys.py",
        before="pa.types.is_date(field.type) or (has_schemas and pa.types.is_decimal(field.type))",
        after="pa.types.is_date(field.type)",
        suite=("tests/sinks/kafka/test_message_format.py",),
    ),
    Mutation(
        name="a batch that replaces nothing is sent after changes of the owner before",
        path=_CHANGED,
        before="    if is_of_owner_before and not (batch.begins_anew or batch.is_replay):",
        after="    if False:",
        suite=_LOADS,
    ),
    Mutation(
        name="a topic that was made again is taken for the one before",
        path=_CHANGED,
        before="    if last.topic_id != new.topic_id:",
        after="    if False:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="a load that begins again does not say so to its readers",
        path=_BATCHES,
        before="    if truncation is not None:",
        after="    if False:",
        suite=_LOADS,
    ),
    Mutation(
        name="a batch whose first try only fenced counts as begun",
        path=_BATCHES,
        before='    return is_this and last.state != "fencing"',
        after="    return is_this",
        suite=_LOADS,
    ),
    Mutation(
        name="the second try of a new owner takes the topic for its own already",
        path=_BATCHES,
        before="    if not is_of_other_owner:\n",
        after="    if True:\n",
        suite=_LOADS,
    ),
    Mutation(
        name="changes of an earlier load are read back",
        path=_BATCHES,
        before="            new = replace(new, starts=tuple(end_offsets(clients, topic)))\n",
        after="",
        suite=_LOADS,
    ),
    Mutation(
        name="rows from before the state of a topic was lost stay for its readers",
        path=_BATCHES,
        before="is_filled = any(each.rows for each in state.parts.values()) or holds_messages(clients, topic)",
        after="is_filled = last is not None",
        suite=_LOADS,
    ),
    Mutation(
        name="a batch goes on in a topic that was restored with its state",
        path=_CHANGED,
        before="if last is not None and before is not None and last.batch_number < before:",
        after="if False:",
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="a part goes on after as many rows as another one of its number had",
        path=_BATCHES,
        before='if cut is not None and is_of_batch and batch.cut not in ("", cut.digest):',
        after="if False:",
        suite=_SINK,
    ),
    Mutation(
        name="a batch is held to the parts of an earlier one",
        path=_BATCHES,
        before='if cut is not None and is_of_batch and batch.cut not in ("", cut.digest):',
        after='if cut is not None and batch.cut not in ("", cut.digest):',
        suite=_SINK,
    ),
    Mutation(
        name="a topic that was made again is the same destination",
        path=_BATCHES,
        before='destination = f"topic {topic.name} ({topic.id})"',
        after='destination = f"topic {topic.name}"',
        suite=_OTHER_TOPICS,
    ),
    Mutation(
        name="a login that one broker refuses counts as refused by all",
        path="sinks/kafka/kafka_clients.py",
        before="is_login(error) and are_all_down and",
        after="is_login(error) and",
        suite=_LOGINS,
    ),
    Mutation(
        name="a login that is refused for a moment counts",
        path="sinks/kafka/kafka_clients.py",
        before=" and monotonic() - self._first_error_at >= _BELIEVED_SECONDS",
        after="",
        suite=_LOGINS,
    ),
    Mutation(
        name="a login that was refused counts after an answer",
        path="sinks/kafka/kafka_clients.py",
        before="        self._errors.clear()\n",
        after="",
        suite=_LOGINS,
    ),
    Mutation(
        name="a login counts although other connections failed in another way",
        path="sinks/kafka/kafka_clients.py",
        before="[*reversed(others), *reversed(told),",
        after="[*reversed(told),",
        suite=_LOGINS,
    ),
    Mutation(
        name="a field that a struct did not have yet cannot be read back",
        path="sinks/kafka/values_from_json.py",
        before="value.get(names[field.name])",
        after="value[names[field.name]]",
        suite=("tests/sinks/kafka/test_message_format.py",),
    ),
    Mutation(
        name="the schema of a batch is chosen without the names inside of structs",
        path="sinks/kafka/retained.py",
        before="        are_whole = [_add_names(inner,",
        after="        are_whole = [True or _add_names(inner,",
        suite=("tests/sinks/kafka/test_message_format.py",),
    ),
    Mutation(
        name="the key of a deleted row loses its columns inside of structs",
        path="sinks/kafka/retained.py",
        before="**self._key_row(key),",
        after="**self._columns(key),",
        suite=("tests/sinks/kafka/test_message_format.py",),
    ),
    Mutation(
        name="a partition that was added after a load cannot be read back",
        path="sinks/kafka/retained.py",
        before="starts[partition] if partition < len(starts) else 0",
        after="starts[partition] if starts else 0",
        suite=("tests/sinks/kafka/test_retained.py",),
    ),
    Mutation(
        name="whatever a topic lacks was deleted by its retention",
        path="sinks/kafka/retained.py",
        before="any(first > _start(starts, partition) for",
        after="any(True for",
        suite=("tests/sinks/kafka/test_retained.py",),
    ),
    Mutation(
        name="a topic that was made again is read back as the one before",
        path=_CHANGED,
        before="    if topic.id != last.topic_id:",
        after="    if False:",
        suite=("tests/servers/test_kafka_read_back.py",),
    ),
    Mutation(
        name="a deleted row stays in a compacted topic",
        path=_PART,
        before="return is_delete and key is not None and self.options.tombstones",
        after="return False",
        suite=_SINK,
    ),
    Mutation(
        name="a topic with messages of somebody else is claimed",
        path="sinks/kafka/topic_owner.py",
        before="    elif is_filled:",
        after="    elif False:",
        suite=_SINK,
    ),
    Mutation(
        name="a letter stays although its change is in the topic",
        path=_PART,
        before="        self.letters.committed(self.part.first_row + rows)\n",
        after="",
        suite=("tests/servers/test_kafka_dead_letters.py",),
    ),
    Mutation(
        name="a change larger than the topic takes is sent",
        path="sinks/kafka/transaction.py",
        before="        if size + _OVERHEAD_BYTES <= self._most_bytes:",
        after="        if True:",
        suite=_SINK,
    ),
    Mutation(
        name="an update that is cut by a slice is two events",
        path="sinks/kafka/event_rows.py",
        before="            if kinds_of(kept)[-1] == ChangeType.UPDATE_BEFORE:",
        after="            if False:",
        suite=("tests/sinks/kafka/test_event_rows.py",),
    ),
    Mutation(
        name="the settings of a schema registry are tried by the first batch only",
        path="sinks/kafka/kafka_sink.py",
        before="        self._format.check()\n",
        after="",
        suite=(f"{_REGISTRIES}::test_a_setting_that_does_not_fit_is_named",),
    ),
    Mutation(
        name="another service at the address counts as a schema registry that refuses a schema",
        path="sinks/kafka/avro_registry.py",
        before="        if cause.error_code is None or (status in _ELSEWHERE and",
        after="        if False and (status in _ELSEWHERE and",
        suite=(f"{_REGISTRIES}::test_a_place_that_is_no_registry_is_refused",),
    ),
    Mutation(
        name="a schema registry is waited for without end",
        path="sinks/kafka/kafka_clients.py",
        before='{"timeout": seconds / _REGISTRY_TRIES, **given,',
        after="{**given,",
        suite=(f"{_REGISTRIES}::test_a_registry_that_never_answers_is_given_up",),
    ),
)
