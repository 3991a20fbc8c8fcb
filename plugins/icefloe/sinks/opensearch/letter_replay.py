"""Dead letters sent again, each with the version that its document would have had."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pyarrow as pa

from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.sinks.opensearch.bulk import BulkSender
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.conflicts import Verdict, verdict_of
from icefloe.sinks.opensearch.operations import bulk_lines
from icefloe.sinks.opensearch.stored_documents import stored_documents
from icefloe.sinks.sink import PartDelivery

_NOT_OURS: Final = (
    "another program wrote or deleted the document (_update_by_query is one), or another row has its key, so its "
    "version is not below the letter's; stop that program, then run `icefloe reset` for the pipeline, which loads "
    "a new index"
)
_PERHAPS_DELETED: Final = (
    "a later batch may have deleted the row, and with `deletes: hard` the index may have forgotten that; change the "
    "row in the table, or run `icefloe reset` for the pipeline, which loads a new index"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterReplay:
    """Sends the letters of a batch to the index that readers see.

    A letter leaves the folder when the index has its document, or a later state of the row. It stays if a document that
    no batch wrote is in its way. If the process is killed in between, the next one finds that the index has it.

    Attributes:
        cluster: to send to.
        folder: of the letters.
        writer: alias of the index.
        first_version: of the load that made the index, which has the state of all rows of batches before it.
        forgets: True if the index forgets deletions after a while; False: it keeps them as marks.
        bulk_bytes: size of a bulk request.
        latest: asks for the version of the batch that began last.
    """

    cluster: Cluster
    folder: DeadLetterFolder
    writer: str
    first_version: int
    forgets: bool
    bulk_bytes: int
    latest: Callable[[], int | None]

    def replay(self, batch_number: int) -> list[PartDelivery]:
        """Sends the letters of a batch, part by part; a result counts letters in place of rows."""
        return [self._replay_part(batch_number, number) for number in self.folder.parts(batch_number)]

    def _replay_part(self, batch_number: int, number: int) -> PartDelivery:
        letters = self.folder.letters_of_part(batch_number, number)
        late = [letter for letter in letters if letter.version < self.first_version]
        present = [letter for letter in letters if letter.version >= self.first_version]
        forgotten = self._perhaps_forgotten(present)
        kept = [replace(letter, reason=_PERHAPS_DELETED) for letter in present if letter.id in forgotten]
        sent = [letter for letter in present if letter.id not in forgotten]
        sender = BulkSender(self.cluster, self.writer, bulk_bytes=self.bulk_bytes)
        refused: list[DeadLetter] = []
        verdicts: Counter[Verdict] = Counter()
        for version in sorted({letter.version for letter in sent}):
            chunk = [letter for letter in sent if letter.version == version]
            while chunk:
                result = sender.send(_lines(chunk, version))
                refused += [replace(chunk[place], reason=reason) for place, reason in result.refused_for_good.items()]
                chunk = self._judge([chunk[place] for place in result.conflicts], refused, verdicts)
        superseded = verdicts[Verdict.LATER]
        remaining = [*kept, *refused]
        if remaining != letters:
            self.folder.put(batch_number, number, remaining)
        return PartDelivery(
            number=number,
            rows=len(letters),
            documents=len(sent) - len(refused) - superseded,
            repeated=verdicts[Verdict.REPEATED],
            retries=sender.retries,
            refused=sender.refused,
            dead_letters=len(remaining),
            superseded=superseded + len(late),
            bytes=sender.sent_bytes,
        )

    def _perhaps_forgotten(self, letters: Sequence[DeadLetter]) -> frozenset[str]:
        """Ids of letters whose rows later batches may have deleted, and the index may have forgotten that.

        No clock says so: an index forgets deletions by its own, and at once if a shard starts again.
        """
        if not self.forgets:
            return frozenset()
        rows = [letter for letter in letters if letter.operation != "delete"]
        found = stored_documents(self.cluster, self.writer, [letter.id for letter in rows])
        # A deletion would have taken the document, so one that is there was not deleted since.
        missing = [letter for letter, stored in zip(rows, found, strict=True) if not stored["found"]]
        latest = self.latest()
        return frozenset(letter.id for letter in missing if latest != letter.version)

    def _judge(
        self, letters: Sequence[DeadLetter], refused: list[DeadLetter], verdicts: Counter[Verdict]
    ) -> list[DeadLetter]:
        """Look at the documents in conflict with letters, and note the reasons; returns the letters to send again."""
        again = []
        found = stored_documents(self.cluster, self.writer, [letter.id for letter in letters])
        for letter, stored in zip(letters, found, strict=True):
            verdict = verdict_of(_content(letter), stored, version=letter.version, latest=self.latest)
            verdicts[verdict] += 1
            if verdict is Verdict.AGAIN:
                again.append(letter)
            elif verdict in (Verdict.OTHER_CONTENT, Verdict.FOREIGN):
                # No batch wrote that: without the letter nobody would know that the document lacks its change.
                refused.append(replace(letter, reason=_NOT_OURS))
        return again


def _content(letter: DeadLetter) -> Mapping[str, Any] | None:
    return None if letter.operation == "delete" else cast("Mapping[str, Any]", letter.document)


def _lines(letters: Sequence[DeadLetter], version: int) -> pa.Array:
    text = pa.large_string()
    bodies = [None if each.operation == "delete" else json.dumps(each.document, ensure_ascii=False) for each in letters]
    return bulk_lines(pa.array([each.id for each in letters], text), pa.array(bodies, text), version)
