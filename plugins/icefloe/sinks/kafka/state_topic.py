"""The topic that says what is delivered: a compacted topic of one partition, read to its end and kept in mind."""

from time import monotonic
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from icefloe.errors import TerminalError
from icefloe.sinks.kafka.arrivals import arrivals
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_refusals import KafkaRequest, KafkaSilentError, error_of, refusals_of
from icefloe.sinks.kafka.topic_state import TopicState
from icefloe.sinks.kafka.topics import end_offsets, find_topic

SETTINGS: Final = {
    "cleanup.policy": "compact",
    # The newest segment is never compacted, and each new sink reads all of it.
    "segment.bytes": 2**20,
    "min.cleanable.dirty.ratio": 0.1,
}


class StateTopic:
    """Reads the state; each look reads on from the last one."""

    def __init__(self, clients: KafkaClients, name: str) -> None:
        self.name = name
        self._clients = clients
        self._consumer: Consumer | None = None
        self._read = 0
        self._id = ""
        self._state = TopicState()
        self._reading = KafkaRequest(doing="read", topic=name, right="Read")

    def look(self) -> TopicState | None:
        """The state that was committed before this call, at least; None if the topic does not exist.

        It waits for transactions of others that are open at this moment: the broker gives no message after the first
        message of an open transaction to readers of committed messages.

        Raises:
            KafkaSilentError: no answer, or another transaction stays open.
            KafkaAnswerError: the cluster refuses.
            TerminalError: a record is damaged, or the topic has several partitions.
        """
        topic = find_topic(self._clients, self.name)
        if topic is None:
            return None
        if topic.partitions != 1:
            raise TerminalError(
                f"topic {topic.name} has {topic.partitions} partitions, and the state of a topic is in one: delete it, "
                "and icefloe makes it, or name another sink.state_topic",
                key="sink.state_topic",
            )
        if topic.id != self._id:
            self.close()
            self._id, self._read, self._state = topic.id, 0, TopicState()
        [end] = end_offsets(self._clients, topic)
        self._read_to(end)
        return self._state

    def close(self) -> None:
        """Gives back the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _read_to(self, end: int) -> None:
        if self._read >= end:
            return
        with refusals_of(self._reading):
            if self._consumer is None:
                self._consumer = self._clients.consumer()
            self._consumer.assign([TopicPartition(self.name, 0, self._read)])
        try:
            self._read_on(self._consumer, end)
        finally:
            # Between looks it would ask the broker a hundred times a second whether there is more.
            self._consumer.unassign()
        # A broker ends connections that were idle for minutes, and the client calls that an error.
        self._clients.answered()

    def _read_on(self, consumer: Consumer, end: int) -> None:
        give_up = monotonic() + self._clients.seconds
        while self._read < end:
            records, read = {}, self._read
            with refusals_of(self._reading):
                messages = arrivals(consumer)
            for message in messages:
                error = message.error()
                if error is None:
                    key, value = message.key(), message.value()
                    read = message.offset() + 1
                    if key is not None and value is not None:
                        records[key.decode()] = value
                elif error.code() == KafkaError._PARTITION_EOF:
                    # It counts the marks of transactions too, which are no messages.
                    read = max(read, message.offset())
                elif error.fatal() or not error.retriable():
                    raise error_of(error, self._reading)
            self._state, self._read = self._state.after(records, topic=self.name), read
            if self._read < end and monotonic() > give_up:
                raise KafkaSilentError(
                    f"Kafka did not give topic {self.name} to its end within {self._clients.seconds:.3g} seconds: "
                    "another transaction on it is open; it ends by itself, so run again",
                    code="_TIMED_OUT", topic=self.name,
                )  # fmt: skip
