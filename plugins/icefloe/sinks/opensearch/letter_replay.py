"""Dead letters sent again, each with the version that its document would have had."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.sinks.opensearch.bulk import BulkSender
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.operations import bulk_lines
from icefloe.sinks.opensearch.stored_documents import stored_documents
from icefloe.sinks.part_sink import PartDelivery


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterReplay:
    """Sends the letters of a batch to the index that readers see.

    A letter leaves the folder when the index has its document, or a later state of the row. Killed in between, it stays
    in the folder, and the next replay finds that the index has it.

    Attributes:
        cluster: to send to.
        folder: of the letters.
        writer: alias of the index.
        first_version: of the load that made the index, which has the state of all rows of batches before it.
        forgets_after: age of a letter from which the index may have forgotten that its row was deleted since; None: it
            keeps deletions as marks.
        bulk_bytes: size of a bulk request.
    """

    cluster: Cluster
    folder: DeadLetterFolder
    writer: str
    first_version: int
    forgets_after: timedelta | None
    bulk_bytes: int

    def replay(self, batch_number: int) -> list[PartDelivery]:
        """Sends the letters of a batch, part by part; a result counts letters in place of rows."""
        return [self._replay_part(batch_number, number) for number in self.folder.parts(batch_number)]

    def _replay_part(self, batch_number: int, number: int) -> PartDelivery:
        letters = self.folder.letters_of_part(batch_number, number)
        late = [letter for letter in letters if letter.version < self.first_version]
        old = [letter for letter in letters if letter.version >= self.first_version and self._is_too_old(letter)]
        sent = [letter for letter in letters if letter.version >= self.first_version and not self._is_too_old(letter)]
        sender = BulkSender(self.cluster, self.writer, bulk_bytes=self.bulk_bytes)
        refused: list[DeadLetter] = []
        repeated = superseded = 0
        for version in sorted({letter.version for letter in sent}):
            chunk = [letter for letter in sent if letter.version == version]
            result = sender.send(_lines(chunk, version))
            refused += [replace(chunk[place], reason=reason) for place, reason in result.refused_for_good.items()]
            there = self._stored_versions([chunk[place].id for place in result.conflicts])
            repeated += sum(each == version for each in there)
            superseded += sum(each != version for each in there)
        remaining = [*old, *refused]
        if remaining != letters:
            self.folder.put(batch_number, number, remaining)
        return PartDelivery(
            number=number,
            rows=len(letters),
            documents=len(sent) - len(refused) - superseded,
            repeated=repeated,
            retries=sender.retries,
            refused=sender.refused,
            dead_letters=len(remaining),
            superseded=superseded + len(late),
            bytes=sender.sent_bytes,
        )

    def _is_too_old(self, letter: DeadLetter) -> bool:
        if self.forgets_after is None or letter.operation == "delete":
            return False
        return datetime.now(UTC) - datetime.fromisoformat(letter.refused_at) >= self.forgets_after

    def _stored_versions(self, ids: Sequence[str]) -> list[int | None]:
        """The version of each document; None for one that a later batch has deleted."""
        found = stored_documents(self.cluster, self.writer, ids)
        return [each["_version"] if each["found"] else None for each in found]


def _lines(letters: Sequence[DeadLetter], version: int) -> pa.Array:
    text = pa.large_string()
    bodies = [None if each.operation == "delete" else json.dumps(each.document, ensure_ascii=False) for each in letters]
    return bulk_lines(pa.array([each.id for each in letters], text), pa.array(bodies, text), version)
