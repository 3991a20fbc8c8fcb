"""Messages as they arrive at a consumer."""

from typing import Final

from confluent_kafka import Consumer, KafkaError, Message

_MOST_AT_ONCE: Final = 10_000
_WAIT_SECONDS: Final = 0.2


def arrivals(consumer: Consumer) -> list[Message]:
    """The messages that are here, or the first one that comes; empty after a fifth of a second without any.

    The client's own call for many messages waits for all of them: a look at a topic of two messages would take the
    whole fifth of a second. It also asks for the coordinator of its group, which this user may not know; no offsets are
    kept there, so that answer means nothing.
    """
    first = consumer.poll(_WAIT_SECONDS)
    found = [] if first is None else [first, *consumer.consume(_MOST_AT_ONCE - 1, timeout=0)]
    return [message for message in found if not _is_of_group(message.error())]


def _is_of_group(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
