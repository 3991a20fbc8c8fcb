"""Documents refused for good, kept for people to read and send again."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from icefloe.documents import Document
from icefloe.errors import TerminalError, one_line
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.manifest import claim_path, load_claim
from icefloe.storage.store import Store, join_url

_NAMED = 3
_LIMIT = 1_000
_FILE = re.compile(r"batch=(\d+)/part-(\d+)\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings(Document):
    """The folder of refused documents, and the most of them in one batch: a sink's ``dead_letters``."""

    path: str
    limit: int = _LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One refused document."""

    id: str
    version: int  # that the document would have
    operation: str  # ``index`` or ``delete``
    document: object
    reason: str
    # First time: ISO 8601 with offset.
    refused_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


class DeadLetterFolder:
    """A file of JSON lines for each part with dead letters."""

    def __init__(self, store: Store, *, limit: int) -> None:
        self._store = store
        self._limit = limit

    def claim(
        self, origin: Origin, index: str, cluster: str | None, *, takes_over: bool = False, only_looks: bool = False
    ) -> None:
        """Make the folder an origin's and an index's own, because letters of others would be replaced."""
        # `cluster` is an id that stays when the address changes; None may be any. Letters taken over count no more.
        found, anywhere = load_claim(self._store), f"{origin.owner} for index {index}"
        owner = anywhere if cluster is None else f"{anywhere} of cluster {cluster}"
        if found is not None and anywhere in (found.owner, owner):
            owner = found.owner if found.owner.partition(" of cluster ")[0] == anywhere else owner
        claim_path(
            self._store, replace(origin, owner=owner), keys="sink.dead_letters.path of its own",
            takes_over=takes_over, only_looks=only_looks,
        )  # fmt: skip

    def put(self, batch_number: int, part_number: int, letters: Sequence[DeadLetter]) -> None:
        """Keep the letters of a part in place of an earlier try's."""
        key = _key(batch_number, part_number)
        if letters:
            lines = "".join(f"{json.dumps(asdict(letter), ensure_ascii=False)}\n" for letter in letters)
            self._store.put(key, lines.encode())
        elif self._store.size(key) is not None:
            self._store.delete([key])

    def refuse_too_many(self, batch_number: int, count: int, letters: Iterable[DeadLetter] | None = None) -> None:
        """Raise above the limit; the error names some of the letters, by default of the folder."""
        if count <= self._limit:
            return
        found = (letter for _, letter in self.letters(batch_number)) if letters is None else letters
        shown = "; ".join(f"{letter.id}: {letter.reason}" for letter in islice(found, _NAMED))
        raise TerminalError(
            f"{count} documents of batch {batch_number} were refused for good, and sink.dead_letters.limit is "
            f"{self._limit} ({shown}); raise the limit and run again, or correct the index and run again"
        )

    def counts(self) -> Mapping[int, int]:
        """Number of letters by batch."""
        return Counter(batch for batch, _ in self.letters())

    def letters(self, batch_number: int | None = None) -> Iterator[tuple[int, DeadLetter]]:
        """The letters of one batch or of all, each with the number of its batch, by part."""
        for batch, number in sorted(self._files("" if batch_number is None else f"batch={batch_number}")):
            # None if another process just sent the last.
            found = self._store.find(key := _key(batch, number)) or b""
            # Not splitlines(): a document may have other separators of lines inside.
            for place, line in enumerate(found.split(b"\n"), 1):
                if line.strip():
                    yield batch, _letter(line, f"line {place} of {join_url(self._store.url, key)}")

    def discard_before(self, batch_number: int) -> None:
        """Forget letters of earlier batches, whose rows a whole load has brought."""
        self._store.delete([_key(*each) for each in self._files("") if each[0] < batch_number])

    def _files(self, folder: str) -> Iterator[tuple[int, int]]:
        for each in self._store.list(folder):
            if found := _FILE.fullmatch(each.key):
                yield int(found[1]), int(found[2])


def _letter(line: bytes, place: str) -> DeadLetter:
    # People delete lines, as docs/sinks/opensearch.md says.
    try:
        return DeadLetter(**json.loads(line))
    except (RecursionError, TypeError, ValueError) as cause:
        raise TerminalError(f"{place} is no dead letter ({one_line(cause)}): correct or delete the line") from cause


def _key(batch_number: int, part_number: int) -> str:
    return f"batch={batch_number}/part-{part_number:05d}.jsonl"
