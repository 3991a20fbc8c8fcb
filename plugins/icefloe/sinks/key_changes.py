"""At most one operation for each key of a part, for destinations with one entry per key."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.columns import ChangeColumns, plain_rows
from icefloe.changes.consolidate import HashGroups
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import named_columns
from icefloe.sinks.json_texts import value_texts

Duplicates: TypeAlias = Literal["fail", "keep_one"]

_SHOWN_CHARACTERS: Final = 100
_KEEP_ONE: Final = "write `duplicates: keep_one`, or "
_LONGEST_BYTES: Final = 512
"""OpenSearch refuses the whole request for a longer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOperations:
    """Operations on different keys."""

    rows: pa.RecordBatch  # the table's columns, one row per operation; for a removed key, any row that it had
    is_live: NDArray[np.bool_]
    committed_at: pa.Array


def key_operations(
    read: Callable[[], Iterator[pa.RecordBatch]],  # all changes of each key, in order
    *,
    identity: Sequence[str],
    hash_key: int,  # of the batch, so that a retry decides the same
    # ``keep_one`` keeps the row with the smallest hash; None: fail, and the sink has no such key.
    duplicates: Duplicates | None = None,
) -> Iterator[KeyOperations]:
    """One operation for each key whose row the changes of a part have changed."""
    # Reads twice: for hashes, which decide, and for the rows that remain. Holds one batch and about 60 bytes a change.
    decided, is_live, several = _decide(read, identity, hash_key)
    if duplicates != "keep_one" and len(several):
        raise several_rows(read, identity, int(several.min()), way_out=_KEEP_ONE if duplicates else "")
    first = 0
    for changes in read():
        # Positions ascend, so those of this batch are a slice of them.
        start, stop = np.searchsorted(decided, (first, first + changes.num_rows))
        if start < stop:
            positions = pa.array(decided[start:stop] - first)
            yield KeyOperations(
                rows=_table_rows(changes).take(positions),
                is_live=is_live[start:stop],
                committed_at=changes.column(ChangeColumns.TIMESTAMP).take(positions),
            )
        first += changes.num_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NetChanges:
    """The rows that a part removes and adds in the end, as ascending positions of its changes, one for each copy."""

    removed: NDArray[np.int64]
    added: NDArray[np.int64]

    @classmethod
    def of(
        cls, read: Callable[[], Iterator[pa.RecordBatch]], *, identity: Sequence[str], hash_key: int
    ) -> "NetChanges":
        """Reads once, for hashes; about 60 bytes a change. Without an identity equal rows are counted."""
        keys, rows, weights = _hashed(read, identity, hash_key, key_columns if identity else _whole_rows)
        groups = HashGroups.of(rows)
        sums = groups.sums(weights)
        first = groups.order[groups.starts]
        sides = []
        for counts in (np.maximum(-sums, 0), np.maximum(sums, 0)):
            order = np.argsort(first)
            positions = np.repeat(first[order], counts[order])
            by_key = HashGroups.of(keys.take(positions))
            several = np.diff(by_key.starts, append=len(positions)) > 1
            if identity and several.any():
                place = int(positions[by_key.order[by_key.starts[several]]].min())
                raise several_rows(read, identity, place)
            sides.append(positions)
        return cls(removed=sides[0], added=sides[1])


def _whole_rows(changes: pa.RecordBatch, _identity: Sequence[str]) -> list[pa.Array]:
    return _table_rows(changes).columns


def with_keys(changes: Iterable[pa.RecordBatch], identity: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same changes; raises at the first without a key."""
    for each in changes:
        key_columns(each, identity)
        yield each


def taken(read: Callable[[], Iterator[pa.RecordBatch]], positions: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """The changes at ascending positions of a part."""
    first = 0
    for changes in read():
        start, stop = np.searchsorted(positions, (first, first + changes.num_rows))
        if start < stop:
            yield changes.take(pa.array(positions[start:stop] - first))
        first += changes.num_rows


def one_row_per_key(read: Callable[[], Iterator[pa.RecordBatch]], *, identity: Sequence[str], hash_key: int) -> None:
    """Passes a part whose changes leave each key with one row or none."""
    keys, rows, weights = _hashed(read, identity, hash_key, named_columns)
    groups = HashGroups.of(keys)
    rows, is_added = rows.take(groups.order), weights[groups.order] > 0
    # Of a key with one row, additions and removals take turns, and a removal takes the row that was added before it.
    is_same = (rows.high[1:] == rows.high[:-1]) & (rows.low[1:] == rows.low[:-1])
    fits = (is_added[1:] != is_added[:-1]) & (is_added[1:] | is_same)
    fits[groups.starts[1:] - 1] = True
    if not fits.all():
        raise several_rows(read, identity, int(groups.order[1:][~fits].min()), way_out=_KEEP_ONE)


def key_columns(rows: pa.RecordBatch, identity: Sequence[str]) -> list[pa.Array]:
    """The identifier columns of rows. A column inside a struct that is null is null."""
    columns = named_columns(rows, identity)
    for name, column in zip(identity, columns, strict=True):
        if column.null_count:
            raise TerminalError(
                f"identifier column {name} is null in a row, so the row has no key in the sink; choose identifier "
                "columns that are never null, or leave such rows out by `filter`, then run `icefloe reset` for the "
                "pipeline",
                column=name,
            )
    return columns


def document_ids(rows: pa.RecordBatch, identity: Sequence[str]) -> pa.Array:
    """An id for each row, as large_string.

    ``<bytes>:<text>`` for each identifier column, joined by commas; the number counts the text's bytes in UTF-8. An id
    of more than 512 bytes is ``sha256:`` and its hexadecimal SHA-256.

    >>> document_ids(pa.record_batch({"id": [7, 81], "code": ["a", "é,"]}), ["id", "code"]).to_pylist()
    ['1:7,1:a', '2:81,3:é,']
    """
    pieces = []
    for column in key_columns(rows, identity):
        text = value_texts(column)
        length = pc.binary_length(text.cast(pa.large_binary())).cast(pa.large_string())
        pieces.append(pc.binary_join_element_wise(length, text, pa.scalar(":", pa.large_string())))
    ids = pc.binary_join_element_wise(*pieces, pa.scalar(",", pa.large_string()))
    sizes = pc.binary_length(ids.cast(pa.large_binary()))
    is_long = pc.greater(sizes, _LONGEST_BYTES)
    if not pc.any(is_long).as_py():
        return ids
    # One by one: a key this long is rare, and there is no kernel for SHA-256.
    hashed = [_sha256(each) for each in ids.filter(is_long).to_pylist()]
    return pc.replace_with_mask(ids, is_long, pa.array(hashed, pa.large_string()))


def _decide(
    read: Callable[[], Iterator[pa.RecordBatch]], identity: Sequence[str], hash_key: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Ascending positions of the rows that get an operation, one per key, and which live; those with further rows."""
    keys, rows, weights = _hashed(read, identity, hash_key, key_columns)
    # Two groupings, one inside the other. Key k goes from row a to b and back, key m from c to d:
    #   key     k   k   k   k   m   m
    #   row     a   b   b   a   c   d
    #   weight  -1  +1  -1  +1  -1  +1
    #   sums    a 0, b 0            c -1, d +1     nothing for k, row d for m
    groups = HashGroups.of(rows)
    sums = groups.sums(weights)
    changed = np.flatnonzero(sums)
    positions, sums = groups.order[groups.starts[changed]], sums[changed]
    by_key = HashGroups.of(keys.take(positions))
    # One row of each key: preferably live, with the smallest hash. The order of hashes is the same in every retry, on
    # every machine, and however the part was cut.
    key_of_row, hashes = by_key.spread(np.arange(len(by_key.starts))), rows.take(positions)
    chosen = np.lexsort((hashes.low, hashes.high, sums <= 0, key_of_row))[by_key.starts]
    live_rows = np.add.reduceat(np.maximum(sums, 0)[by_key.order], by_key.starts)
    decided = positions[chosen]
    ascending = np.argsort(decided)
    return decided[ascending], (live_rows > 0)[ascending], decided[live_rows > 1]


def _hashed(
    read: Callable[[], Iterator[pa.RecordBatch]],
    identity: Sequence[str],
    hash_key: int,
    columns_of: Callable[[pa.RecordBatch, Sequence[str]], list[pa.Array]],
) -> tuple[RowHashes, RowHashes, NDArray[np.int64]]:
    """Hashes of the key and the row of each change; 1 if it adds the row, -1 if it removes it."""
    keys, rows, weights = [], [], [np.zeros(0, np.int64)]
    for changes in read():
        keys.append(RowHashes.of(columns_of(changes, identity), key=hash_key))
        rows.append(RowHashes.of(_table_rows(changes).columns, key=hash_key))
        weights.append(ChangeColumns.weights(changes))
    return RowHashes.concat(keys), RowHashes.concat(rows), np.concatenate(weights)


def shown_key(row: pa.RecordBatch, identity: Sequence[str]) -> str:
    """The key of one row, for people."""
    [key] = plain_rows(pa.RecordBatch.from_arrays(named_columns(row, identity), list(identity)))
    return ", ".join(f"{name} {str(value)[:_SHOWN_CHARACTERS]}" for name, value in key.items())


def _table_rows(changes: pa.RecordBatch) -> pa.RecordBatch:
    return changes.select([name for name in changes.schema.names if name not in ChangeColumns.ALL])


def several_rows(
    read: Callable[[], Iterator[pa.RecordBatch]],
    identity: Sequence[str],
    position: int,
    *,
    way_out: str = "",
) -> TerminalError:
    """The error of a key with several rows, one of which is at a position of some changes."""
    [row] = taken(read, np.array([position]))
    return TerminalError(
        f"several rows have the key {shown_key(row, identity)} in this batch, and the sink shows one row per key; "
        f"{way_out}correct the table or identifier_columns, then run `icefloe reset` for the pipeline"
    )


def _sha256(document_id: str) -> str:
    return f"sha256:{hashlib.sha256(document_id.encode()).hexdigest()}"
