"""Documents refused for good, kept for people to read and send again."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict

from icefloe.documents import LEFT_OUT_IF_NONE, STRICT, dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.manifest import claim_path
from icefloe.storage.keys import join_url
from icefloe.storage.store import Store

__all__ = ["TooManyDeadLettersError"]

_MARKER: Final = "_sink.json"
_NAMED = 3
_LIMIT = 1_000
_FILE = re.compile(r"batch=(\d+)/part-(\d+)(?:-\d+)?\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSink:
    """``_sink.json``: the sink that refused what a folder keeps.

    Attributes:
        sink: its type and the name of its index or topic, for example ``index people``.
        cluster: the cluster's own id, which stays when its address changes; None: it has none.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    sink: str
    cluster: Annotated[str | None, LEFT_OUT_IF_NONE] = None

    def __str__(self) -> str:
        """The sink in words, for errors."""
        return self.sink if self.cluster is None else f"{self.sink} of cluster {self.cluster}"

    def may_be(self, other: "DeadLetterSink") -> bool:
        """True unless the two are known to differ.

        >>> people = DeadLetterSink(sink="index people", cluster="a")
        >>> people.may_be(DeadLetterSink(sink="index people")), people.may_be(DeadLetterSink(sink="index other"))
        (True, False)
        """
        is_known = self.cluster is not None and other.cluster is not None
        return self.sink == other.sink and (not is_known or self.cluster == other.cluster)


class TooManyDeadLettersError(TerminalError):
    """A batch has more dead letters than the limit allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """The folder of refused documents, and the most of them in one batch: a sink's ``dead_letters``."""

    __pydantic_config__: ClassVar = STRICT

    path: str
    limit: int = _LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One refused document.

    Attributes:
        id: of the document, or the key of the message.
        version: that it would have; of a message, its place within the batch.
        operation: ``index`` or ``delete`` of a document, ``send`` of a message.
        refused_at: first time: ISO 8601 with offset.
    """

    id: str
    version: int
    operation: str
    document: object
    reason: str
    refused_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


class DeadLetterFolder:
    """A file of JSON lines for each part with dead letters."""

    def __init__(self, store: Store, *, limit: int, way_out: str = "correct the destination and run again") -> None:
        self._store = store
        self._limit = limit
        self._way_out = way_out

    def claim(self, origin: Origin, sink: DeadLetterSink, *, takes_over: bool = False) -> None:
        """Make the folder an origin's and a sink's own, because letters of others would be replaced.

        Args:
            takes_over: True if it may be another one's, whose letters count no more.
        """
        claim_path(self._store, origin, keys="sink.dead_letters.path of its own", takes_over=takes_over)
        (self._store.put if takes_over else self._store.create)(_MARKER, dump_document(sink))
        self.refuse_other_sink(sink)

    def refuse_other_sink(self, sink: DeadLetterSink) -> None:
        """Raise if the folder is another sink's."""
        data, url = self._store.find(_MARKER), join_url(self._store.url, _MARKER)
        found = None if data is None else load_document(DeadLetterSink, data, what=f"the marker {url}")
        if found is not None and not found.may_be(sink):
            raise TerminalError(
                f"{self._store.url} keeps dead letters of {found}, as {url} says, not of {sink}: give each sink a "
                "sink.dead_letters.path of its own; if that is the same sink on a new cluster, delete that file"
            )

    def put(self, batch_number: int, part_number: int, letters: Sequence[DeadLetter]) -> None:
        """Keep the letters of a part in place of an earlier try's."""
        key = _key(batch_number, part_number)
        if letters:
            self._store.put(key, _lines(letters))
        elif self._store.size(key) is not None:
            self._store.delete([key])

    def put_one(self, batch_number: int, part_number: int, place: int, letter: DeadLetter) -> None:
        """Keep one letter as a file of its own, the same in each try."""
        self._store.put(_key(batch_number, part_number, place), _lines([letter]))

    def places(self, batch_number: int, part_number: int) -> frozenset[int]:
        """Places of letters of `put_one`."""
        keys = self._single(batch_number, part_number)
        return frozenset(int(key.removesuffix(".jsonl").rpartition("-")[2]) for key in keys)

    def remove(self, batch_number: int, part_number: int, places: Iterable[int]) -> None:
        """Delete letters that `put_one` kept."""
        self._store.delete([_key(batch_number, part_number, place) for place in places])

    def refuse_too_many(self, batch_number: int, count: int, letters: Iterable[DeadLetter] | None = None) -> None:
        """Raise TooManyDeadLettersError above the limit; it names some of the letters, by default of the folder."""
        if count <= self._limit:
            return
        found = self.letters(batch_number) if letters is None else letters
        shown = "; ".join(f"{letter.id}: {letter.reason}" for letter in islice(found, _NAMED))
        raise TooManyDeadLettersError(
            f"{count} documents of batch {batch_number} were refused for good, and sink.dead_letters.limit is "
            f"{self._limit} ({shown}); raise the limit and run again, or {self._way_out}"
        )

    def counts(self, sink: DeadLetterSink) -> Mapping[int, int]:
        """Number of letters by batch, unless another sink's."""
        self.refuse_other_sink(sink)
        return {number: sum(1 for _ in self.letters(number)) for number in self.batches()}

    def letters(self, batch_number: int) -> Iterator[DeadLetter]:
        """The letters of a batch, by part."""
        for number in self.parts(batch_number):
            yield from self.letters_of_part(batch_number, number)

    def letters_of_part(self, batch_number: int, part_number: int) -> list[DeadLetter]:
        """The letters of a part; none if another process just sent the last."""
        keys = [_key(batch_number, part_number), *self._single(batch_number, part_number)]
        found = b"".join(self._store.find(key) or b"" for key in keys)
        # Not splitlines(): a document may have other separators of lines inside.
        return [DeadLetter(**json.loads(line)) for line in found.decode().split("\n") if line]

    def parts(self, batch_number: int) -> list[int]:
        """Parts of a batch with letters."""
        return sorted({number for batch, number in self._files(f"batch={batch_number}") if batch == batch_number})

    def batches(self) -> list[int]:
        """Batches with letters."""
        return sorted({batch for batch, _ in self._files("")})

    def _single(self, batch_number: int, part_number: int) -> list[str]:
        first = _key(batch_number, part_number).replace(".jsonl", "-")
        return sorted(each.key for each in self._store.list(f"batch={batch_number}") if each.key.startswith(first))

    def _files(self, folder: str) -> Iterator[tuple[int, int]]:
        for each in self._store.list(folder):
            if found := _FILE.fullmatch(each.key):
                yield int(found[1]), int(found[2])


def _key(batch_number: int, part_number: int, place: int | None = None) -> str:
    return f"batch={batch_number}/part-{part_number:05d}{'' if place is None else f'-{place:012d}'}.jsonl"


def _lines(letters: Sequence[DeadLetter]) -> bytes:
    return "".join(f"{json.dumps(asdict(letter), ensure_ascii=False)}\n" for letter in letters).encode()
