"""The state of a topic: its owner, its last batch and how far each part is. Each record replaces an older one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict

from icefloe.documents import LEFT_OUT_IF_EMPTY, LEFT_OUT_IF_NONE, STRICT, load_document

CLAIM_KEY: Final = "claim"
BATCH_KEY: Final = "batch"
CUT_KEY: Final = "cut"
_PART: Final = "part/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicClaim:
    """Whose topic it is.

    Attributes:
        generation: 1, and one more with each take-over. Batches of a later generation are later.
        owner: the id of the checkpoint.
        pipeline: its name; pipeline and table are for people.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    generation: int
    owner: str
    pipeline: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedBatch:
    """The last batch that was begun.

    Attributes:
        state: ``fencing``: its parts may not begin yet, and neither truncation nor ``starts`` of its load is written;
            ``open``: they may; ``finished``: all of them are delivered.
        topic_id: the id that the cluster gave the topic; a topic that is made again has another.
        partitions: number of partitions of the topic; a key is always in the same one as long as it does not change.
        identity: names of the key's columns.
        starts: offset of each partition at which the last load begins; what is before counts no longer.
        key_types: types of the key's columns whose promotion would move keys, by column; empty also in records of
            releases that did not write it.
        key_schema_id: the id of the key's schema in the registry, which is part of the bytes of keys; None: there is
            none.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    generation: int
    batch_number: int
    state: Literal["fencing", "open", "finished"]
    topic_id: str
    partitions: int
    identity: tuple[str, ...]
    starts: tuple[int, ...]
    key_types: Annotated[Mapping[str, str], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)
    key_schema_id: Annotated[int | None, LEFT_OUT_IF_NONE] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCut:
    """The division of the last batch into parts.

    Attributes:
        digest: see ``ProvenBatch.cut``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    generation: int
    batch_number: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProgress:
    """The progress of the parts of a number.

    Attributes:
        batch_number: the last batch of which it delivered rows; None: the number was used, but delivered nothing yet.
        rows: the first rows of the part that are in the topic.
        events: events that were sent for them, without tombstones.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    generation: int
    batch_number: int | None = None
    rows: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """All records, the last one of each key."""

    claim: TopicClaim | None = None
    batch: StartedBatch | None = None
    cut: BatchCut | None = None
    parts: Mapping[int, PartProgress] = field(default_factory=lambda: MappingProxyType({}))

    def after(self, records: Mapping[str, bytes], *, topic: str) -> "TopicState":
        """The state after further records, by key.

        Raises:
            TerminalError: a record is damaged, or of a newer release.
        """
        parts = dict(self.parts)
        found: dict[str, Any] = {}
        for key, value in records.items():
            what = f"record {key} of topic {topic}"
            if key == CLAIM_KEY:
                found["claim"] = load_document(TopicClaim, value, what=what)
            elif key == BATCH_KEY:
                found["batch"] = load_document(StartedBatch, value, what=what)
            elif key == CUT_KEY:
                found["cut"] = load_document(BatchCut, value, what=what)
            elif key.startswith(_PART):
                parts[int(key.removeprefix(_PART))] = load_document(PartProgress, value, what=what)
        return replace(self, parts=MappingProxyType(parts), **found)


def part_key(number: int) -> str:
    """The key of a part's record.

    >>> part_key(7)
    'part/7'
    """
    return f"{_PART}{number}"
