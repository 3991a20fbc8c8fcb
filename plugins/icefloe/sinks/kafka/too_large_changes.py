"""Changes that are too large for the topic: an error, or dead letters."""

import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.sinks.kafka.transaction import TooLargeError


@dataclass(kw_only=True)
class TooLargeChanges:
    """The dead letters of one part.

    Attributes:
        folder: of dead letters; None: the first change that is too large is an error.
        batch_number: of the batch.
        part_number: of the part.
        has_text: True if messages are texts in JSON.
    """

    folder: DeadLetterFolder | None
    batch_number: int
    part_number: int
    has_text: bool
    _places: set[int] = field(default_factory=set)
    _tried_again: set[int] = field(default_factory=set)

    def go_on_after(self, place: int) -> None:
        """Counts the letters of earlier tries up to a place within the batch. Changes after it are tried again."""
        found = frozenset() if self.folder is None else self.folder.places(self.batch_number, self.part_number)
        self._places = {each for each in found if each <= place}
        self._tried_again = {each for each in found if each > place}

    def keep(self, refused: TooLargeError, order: int, *, key: bytes | None, value: bytes | None) -> None:
        """Keeps a change, before anything after it is committed.

        Args:
            refused: why it cannot be sent.
            order: its place within the batch, which is the same in each try.
            key: of the message.
            value: of the message.

        Raises:
            TooLargeError: there is no folder.
            TooManyDeadLettersError: the part alone has more than the limit allows.
        """
        if self.folder is None:
            raise refused
        letter = DeadLetter(
            id="" if key is None else self._text(key), version=order, operation="send",
            document=None if value is None else json.loads(value) if self.has_text else self._text(value),
            reason=str(refused),
        )  # fmt: skip
        self.folder.put_one(self.batch_number, self.part_number, order, letter)
        self._places.add(order)
        self._tried_again.discard(order)
        self.folder.refuse_too_many(self.batch_number, self.count(), [letter])

    def committed(self, place: int) -> None:
        """Removes letters of earlier tries up to a place: the topic took these changes in this try."""
        sent = {each for each in self._tried_again if each <= place}
        if self.folder is not None and sent:
            self.folder.remove(self.batch_number, self.part_number, sent)
            self._tried_again -= sent

    def count(self) -> int:
        """The letters of the part, without those of changes that this try sends."""
        return len(self._places)

    def _text(self, message: bytes) -> Any:
        return message.decode() if self.has_text else b64encode(message).decode()
