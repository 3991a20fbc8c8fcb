"""A log in memory: topics, transactions, and fencing of producers by their transactional id."""

from collections import defaultdict
from collections.abc import Sequence
from threading import RLock
from typing import Any, NamedTuple

__all__ = ["BusyLogError", "FencedError", "MemoryLog", "Message"]


class FencedError(Exception):
    """A newer producer has this transactional id."""


class BusyLogError(Exception):
    """The broker has too much to do."""


class Message(NamedTuple):
    topic: str
    key: str
    value: Any


class MemoryLog:
    """The broker.

    Attributes:
        refusals: transactions that are still to be refused; None: all.
    """

    def __init__(self) -> None:
        self.refusals: int | None = 0
        self._epochs: dict[str, int] = defaultdict(int)
        self._messages: list[Message] = []
        self._lock = RLock()

    def init_transactions(self, transactional_id: str) -> int:
        """A new producer's epoch; every older producer of this id is fenced."""
        with self._lock:
            self._epochs[transactional_id] += 1
            return self._epochs[transactional_id]

    def commit(self, transactional_id: str, epoch: int, messages: Sequence[Message]) -> None:
        """Appends the messages of a transaction, all or none."""
        with self._lock:
            if self._epochs[transactional_id] != epoch:
                raise FencedError(transactional_id)
            if self.refusals is None or self.refusals > 0:
                self.refusals = None if self.refusals is None else self.refusals - 1
                raise BusyLogError(transactional_id)
            self._messages.extend(messages)

    def read_committed(self, topic: str) -> list[Message]:
        with self._lock:
            return [message for message in self._messages if message.topic == topic]
