"""The findings of a comparison of a sink with the table, in sentences."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from icefloe.batch.verify.keyed_rows import KeyDifference
from icefloe.changes.plain_rows import plain_rows
from icefloe.checkpoint.ending import BatchOutcome
from icefloe.checkpoint.records import CommitRecord
from icefloe.sinks.sink import Sink

SHOWN: Final = 10
KINDS: Final[Mapping[str, str]] = {
    KeyDifference.MISSING: "missing in",
    KeyDifference.EXTRA: "only in",
    KeyDifference.DIFFERENT: "different in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFindings:
    """Findings of a comparison of a sink with the table.

    Attributes:
        snapshot_id: state of the table; None: there was nothing to compare.
        rows: compared rows of that state, or of the sample.
        uncompared: rows that need not be at the destination, and are not there.
        counts: keys by kind: ``missing``, ``extra``, ``different``.
        keys: the first of them by kind, each as ``name=value``.
        notes: what was not compared, and why.
    """

    url: str
    snapshot_id: int | None = None
    rows: int = 0
    uncompared: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not self.sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The changes that a log still holds, batch by batch.

    Attributes:
        lost: changes that it need not hold, and does not.
        missing: for each batch of which it holds too few: changes held and delivered.
        doubled: for each batch of which it holds too many: changes held and delivered.
    """

    lost: int = 0
    missing: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    doubled: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        batches: Sequence[CommitRecord],
        held: Mapping[int, int],
        *,
        has_before_images: bool = True,
        may_lack: Callable[[int], int | None] = lambda _: None,
    ) -> "Retention":
        """The retention of some batches."""
        delivered = {
            batch.batch_number: sum(batch.counts.values())
            - (0 if has_before_images else batch.counts.get("update_before", 0))
            for batch in batches
            if batch.outcome is BatchOutcome.DELIVERED
        }
        found = {number: (held.get(number, 0), rows) for number, rows in delivered.items()}
        fewer = {number: pair for number, pair in found.items() if pair[0] < pair[1]}
        allowed = {number: may_lack(number) for number in fewer}
        missing = {
            number: (there, rows)
            for number, (there, rows) in fewer.items()
            if (most := allowed[number]) is not None and rows - there > most
        }
        return cls(
            lost=sum(rows - there for number, (there, rows) in fewer.items() if number not in missing),
            missing=missing,
            doubled={number: pair for number, pair in found.items() if pair[0] > pair[1]},
        )

    def notes(self, url: str) -> tuple[str, ...]:
        """A note if a log no longer holds everything."""
        note = f"{url} no longer holds {self.lost:,} of the changes; of each key the last change was compared"
        return (note,) if self.lost else ()

    def faults(self, url: str) -> tuple[str, ...]:
        """A sentence for each batch that is there too often, or not as a whole."""
        return (
            *(
                f"{url} holds {held:,} changes of batch {number}, but {delivered:,} were delivered"
                for number, (held, delivered) in self.doubled.items()
            ),
            *(
                f"{url} holds {held:,} changes of batch {number}, but {delivered:,} were delivered, and no rule of its "
                "own has removed the others"
                for number, (held, delivered) in self.missing.items()
            ),
        )


def dead_letters_note(sink: Sink) -> tuple[str, ...]:
    """A note that differences may come from changes that the sink refused for good."""
    if not sink.keeps_dead_letters or not (letters := sum(sink.dead_letters().values())):
        return ()
    note = (
        f"{sink.url} refused {letters:,} changes that are in the folder of dead letters: their keys are missing or "
        f"have an older state; {sink.letters_way_out}"
    )
    return (note,)


def foreign_writes_note(sink: Sink) -> tuple[str, ...]:
    """A note that another program wrote to the sink; call it right after all rows were read back."""
    count = sink.foreign_writes()
    if not count:
        return ()
    note = (
        f"{count:,} documents of {sink.url} have a later version than its last batch: another program wrote them, for "
        "example by _update_by_query, and the next batch may fail to write them; `icefloe reset NAME` loads a new index"
    )
    return (note,)


def left_out_note(differing: int, things: str, left_out: int) -> str:
    """A note that differences may come from commits that ``on_removed_rows: skip`` left out."""
    return (
        f"{differing:,} {things} differ, and on_removed_rows: skip left out commits with up to {left_out:,} changes: "
        "whether these are lost rows, the table alone does not show"
    )


def named(rows: pa.Table, names: Sequence[str]) -> list[str]:
    """The first rows, each as ``name=value`` of the key."""
    return [" ".join(f"{name}={row[name]}" for name in names) for row in plain_rows(rows.slice(0, SHOWN))]
