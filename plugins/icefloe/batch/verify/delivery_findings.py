"""The findings of a comparison of a sink with the table, in sentences."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.changes.columns import plain_rows
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.records import BatchOutcome, CommitRecord
from icefloe.sinks.sink import Sink
from icefloe.storage.local_folders import on_local_disk

KEPT: Final = 10_000
"""Keys that are kept of all that differ; the others are counted."""

_ROWS_PER_SLICE: Final = 1 << 20
_MOST_SLICES: Final = 128
_LAST: Final = "place_max"
_VALUE: Final = "value."
"""Begins the names of the key's columns among ours: the table may call them ``key`` or ``row``."""


class KeyDifference(StrEnum):
    """Ways in which a key of a sink may differ from the table's."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"


class KeyedRows:
    """Rows of one place, whose hashes and key values are kept on disk, in an empty folder of their own."""

    def __init__(self, folder: Path, *, rows: int, names: Sequence[str]) -> None:
        self._slices = HashSlice.slices(min(_MOST_SLICES, -(-rows // _ROWS_PER_SLICE)))
        self._folder, self._names = folder, [_VALUE + name for name in names]
        self._writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}

    def add(
        self, keys: RowHashes, rows: RowHashes, values: Sequence[pa.Array], is_live: pa.Array | None = None
    ) -> None:
        """Adds rows, in their order."""
        live = pa.repeat(pa.scalar(value=True), len(keys)) if is_live is None else is_live
        columns = [keys.to_column(), rows.to_column(), live, *values]
        batch = pa.RecordBatch.from_arrays(columns, ["key", "row", "is_live", *self._names])
        with on_local_disk(f"rows cannot be compared in {self._folder}"):
            for number, part in enumerate(self._slices):
                found = batch.take(pa.array(part.positions(keys))) if len(self._slices) > 1 else batch
                if found.num_rows:
                    self._writer(number, batch.schema).write_batch(found)

    def slices(self) -> Iterator[pa.Table]:
        """Slices of the rows: ``key`` and ``row`` are hashes, ``place`` counts the rows in the order of adding."""
        with on_local_disk(f"rows cannot be compared in {self._folder}"):
            for writer in self._writers.values():
                writer.close()
            for number in range(len(self._slices)):
                if number in self._writers:
                    with pa.OSFile(str(self._path(number))) as file:
                        table = pa.ipc.open_file(file).read_all()
                    yield table.append_column("place", pa.array(np.arange(len(table))))
                else:
                    yield _nothing()

    def _writer(self, number: int, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
        if number not in self._writers:
            self._writers[number] = pa.ipc.new_file(str(self._path(number)), schema)
        return self._writers[number]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.arrow"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifferences:
    """The keys of two places that differ."""

    counts: Counter[str] = field(default_factory=Counter)  # missing in the second place, extra there, or different
    # The first of them: ``key``, ``kind`` and the columns of the key.
    kept: pa.Table = field(
        default_factory=lambda: pa.table({"key": pa.array([], pa.binary(16)), "kind": pa.array([], pa.string())})
    )
    rows: int = 0  # in the first place
    doubled: int = 0  # further rows of a key in the second place
    ambiguous: int = 0  # keys with several rows in the first place; any of them is right
    ambiguous_kept: Sequence[pa.Table] = ()  # a row of each of the first ambiguous keys

    @classmethod
    def between(cls, expected: KeyedRows, held: KeyedRows, *, is_log: bool) -> Self:
        """Compares a place with the rows that it should have; both have the same number of slices."""
        counts: Counter[str] = Counter()
        kept: list[pa.Table] = []
        several: list[pa.Table] = []
        doubled = ambiguous = wanted_rows = 0
        for wanted, there in zip(expected.slices(), held.slices(), strict=True):
            wanted_rows += len(wanted)
            newest = _last_of_each_key(there)
            doubled += 0 if is_log else len(there) - len(newest)
            shared = wanted.filter(
                pc.invert(pc.is_in(wanted["place"], _last_of_each_key(wanted)["place"].combine_chunks()))
            )
            several.append(_last_of_each_key(shared).slice(0, KEPT))
            ambiguous += _keys(shared)
            live = newest.filter(newest["is_live"])
            is_known = pc.is_in(live["key"], wanted["key"].combine_chunks())
            is_right = pc.is_in(_pairs(live), _pairs(wanted))
            for kind, rows in (
                (
                    KeyDifference.MISSING,
                    _last_of_each_key(wanted.filter(pc.invert(pc.is_in(wanted["key"], live["key"].combine_chunks())))),
                ),
                (KeyDifference.EXTRA, live.filter(pc.invert(is_known))),
                (KeyDifference.DIFFERENT, live.filter(pc.and_(is_known, pc.invert(is_right)))),
            ):
                counts[kind] += len(rows)
                shown = rows.slice(0, max(0, KEPT - sum(map(len, kept)))).drop_columns(["row", "is_live", "place"])
                if len(shown):
                    kept.append(shown.append_column("kind", pa.repeat(pa.scalar(kind), len(shown))))
        found = pa.concat_tables(kept, promote_options="permissive") if kept else cls().kept
        return cls(
            counts=+counts,
            kept=found,
            rows=wanted_rows,
            doubled=doubled,
            ambiguous=ambiguous,
            ambiguous_kept=[each for each in several if len(each)],
        )

    def plus(self, others: Self) -> Self:
        """Those of other keys, too."""
        kept = [each for each in (self.kept, others.kept.slice(0, max(0, KEPT - len(self.kept)))) if len(each)]
        return replace(
            self,
            counts=self.counts + others.counts,
            kept=pa.concat_tables(kept, promote_options="permissive") if kept else self.kept,
            rows=self.rows + others.rows,
            doubled=self.doubled + others.doubled,
            ambiguous=self.ambiguous + others.ambiguous,
            ambiguous_kept=[*self.ambiguous_kept, *others.ambiguous_kept][:SHOWN],
        )

    @property
    def is_complete(self) -> bool:
        """True if every key that differs is kept."""
        return self.counts.total() == len(self.kept)

    def only(self, keys: pa.Array | pa.ChunkedArray) -> Self:
        """The differences of some keys, all of which must be kept."""
        kept = self.kept.filter(pc.is_in(self.kept["key"], keys))
        return replace(self, counts=Counter(kept["kind"].to_pylist()), kept=kept)


def _last_of_each_key(rows: pa.Table) -> pa.Table:
    places = rows.group_by("key", use_threads=False).aggregate([("place", "max")])[_LAST]
    return rows.filter(pc.is_in(rows["place"], places.combine_chunks()))


def _pairs(rows: pa.Table) -> pa.Array:
    """Hash of key and row, in one value."""
    key, row = (rows[name].combine_chunks().cast(pa.binary()) for name in ("key", "row"))
    return pc.binary_join_element_wise(key, row, pa.scalar(b"", pa.binary()))


def _keys(rows: pa.Table) -> int:
    return int(pc.count_distinct(rows["key"]).as_py())


def _nothing() -> pa.Table:
    kinds = {"key": pa.binary(16), "row": pa.binary(16), "is_live": pa.bool_(), "place": pa.int64()}
    return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})


SHOWN: Final = 10
KINDS: Final[Mapping[str, str]] = {
    KeyDifference.MISSING: "missing in",
    KeyDifference.EXTRA: "only in",
    KeyDifference.DIFFERENT: "different in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFindings:
    """Findings of a comparison of a sink with the table."""

    url: str
    snapshot_id: int | None = None  # state of the table; None: there was nothing to compare
    rows: int = 0  # compared rows of that state
    uncompared: int = 0  # rows that need not be at the destination, and are not there
    counts: Mapping[str, int] = field(default_factory=dict)  # keys: ``missing``, ``extra``, ``different``
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the first by kind: ``name=value``
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # reasons why something was not compared

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not self.sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The changes that a log still holds, batch by batch."""

    lost: int = 0  # changes that it need not hold, and does not
    missing: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # by batch: (held, delivered), too few
    doubled: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # by batch: (held, delivered), too many

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
        lost, missing, doubled = 0, dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
        for number, rows in delivered.items():
            there = held.get(number, 0)
            if there > rows:
                doubled[number] = there, rows
            elif there < rows:
                most = may_lack(number)
                if most is not None and rows - there > most:
                    missing[number] = there, rows
                else:
                    lost += rows - there
        return cls(lost=lost, missing=missing, doubled=doubled)

    def notes(self, url: str) -> tuple[str, ...]:
        """A note if a log no longer holds everything."""
        note = f"{url} no longer holds {self.lost:,} of the changes; of each key the last change was compared"
        return (note,) if self.lost else ()

    def faults(self, url: str) -> tuple[str, ...]:
        """A sentence for each batch that is there too often, or not as a whole."""
        rule = ", and no rule of its own has removed the others"
        return tuple(
            f"{url} holds {held:,} changes of batch {number}, but {delivered:,} were delivered{said}"
            for said, found in (("", self.doubled), (rule, self.missing))
            for number, (held, delivered) in found.items()
        )


def dead_letters_note(sink: Sink) -> tuple[str, ...]:
    """A note that differences may come from changes that the sink refused for good."""
    if not (letters := sum(sink.dead_letters().values())):
        return ()
    note = (
        f"{sink.url} refused {letters:,} changes that are in the folder of dead letters: their keys are missing or "
        "have an older state; correct the index, then send their batches and all later ones by "
        "`icefloe deliver NAME --batches`"
    )
    return (note,)


def left_out_note(differing: int, things: str, left_out: int) -> str:
    """A note that differences may come from commits that ``on_removed_rows: skip`` left out."""
    return (
        f"{differing:,} {things} differ, and on_removed_rows: skip left out commits with up to {left_out:,} changes: "
        "whether these are lost rows, the table alone does not show"
    )


def key_values(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The columns of the key of rows that were kept."""
    return rows.select([_VALUE + name for name in names]).rename_columns(list(names))


def named(rows: pa.Table, names: Sequence[str]) -> list[str]:
    """The first rows, each as ``name=value`` of the key."""
    shown = plain_rows(key_values(rows, names).slice(0, SHOWN))
    return [" ".join(f"{name}={value}" for name, value in row.items()) for row in shown]
