"""A history, compared with the table at every state that readers saw and that is still there."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, takewhile
from random import Random
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.rows.row_shape import RowShape
from icefloe.batch.verify.table_state import TableState
from icefloe.changes.columns import plain_rows
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.published import BranchLog
from icefloe.sinks.sink import KeptVersions, Sink
from icefloe.units import time_of_ms

_Entry: TypeAlias = tuple[int, int]
"""A snapshot, and the time in ms at which it became current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A state of the table, and instants at which the history must be equal to it."""

    snapshot_id: int
    instants_ms: Sequence[int]


def verify_versions(
    session: PipelineSession, sink: Sink, shape: RowShape, keys: Sequence[str]
) -> tuple[str, bool] | None:
    """Compare the versions that were valid at some instants with the rows of the table that was current then.

    Instants are the first and the last millisecond of each state since the last load, and one between them at random.
    Each state is read once, and the versions once; 24 bytes are held for each instant.

    Args:
        keys: names of the identifier columns.

    Returns:
        A sentence, and True if all agree; None if the sink keeps no versions.
    """
    kept, table = sink.kept_versions(shape.delivered.arrow, keys), session.pipeline.table
    if kept is None:
        return None
    # The versions may be of a batch that came meanwhile, whose states the table did not have before.
    session = session.with_fresh_table()
    past, states = _Past(session, kept, shape), _states(session, kept)
    wrong = past.first_difference(states)
    if wrong is not None and (recorded := _recorded(session, kept)):
        states = _states(session, kept, recorded)
        wrong = past.first_difference(states)
    if not states:
        return f"the log of {table} has no state since the last load of {sink.url}", True
    if wrong is not None:
        snapshot_id, instant_ms = wrong
        said = past.difference(snapshot_id, instant_ms)
        return f"at {time_of_ms(instant_ms)}, when snapshot {snapshot_id} was current, {said}", False
    instants, since = sum(len(state.instants_ms) for state in states), time_of_ms(states[0].instants_ms[0])
    return f"{sink.url} is {table} at {instants:,} instants of {len(states):,} states since {since}", True


def _states(session: PipelineSession, kept: KeptVersions, recorded: Sequence[_Entry] = ()) -> Sequence[_State]:
    """States that the history has too; of equal times the last one counts."""
    first, last = (session.checkpoint.known_offset(number) for number in (kept.load, kept.last))
    loaded, end = (first.spec.steps or (None,))[0], last.ending.cursor
    if end.snapshot_id is None:
        return ()
    log = BranchLog.of(session.table, session.pipeline.branch)
    if (stop := log.place_of(end.snapshot_id, end.made_current_at_ms)) is None:
        return ()
    entries = [(entry.snapshot_id, entry.timestamp_ms) for entry in log.entries[: stop + 1]]
    begin = None if loaded is None else (loaded.end_snapshot_id, loaded.made_current_at_ms)
    if begin in entries:
        entries = entries[max(number for number, entry in enumerate(entries) if entry == begin) :]
    else:
        # Expiry has cut the log, or taken out that entry alone.
        earlier = [*takewhile(lambda entry: entry[1] <= kept.since_ms, entries)]
        if recorded:
            earlier = [*takewhile(lambda entry: entry not in recorded, entries)]
        entries = entries[len(earlier) :]
    entries = _with_expired(entries, recorded, session.table.history.snapshots)
    entries = [next(equal) for _, equal in groupby(entries, lambda entry: entry[0])]
    times = [*accumulate((max(time_ms, kept.since_ms) for _, time_ms in entries), max)]
    random, states = Random(), list[_State]()  # noqa: S311 - no secret
    ends = [*times[1:], *(each + 1 for each in times[-1:])]
    for (snapshot_id, _), first_ms, next_ms in zip(entries, times, ends, strict=True):
        if next_ms > first_ms and snapshot_id in session.table.history.snapshots:
            instants = {first_ms, random.randrange(first_ms, next_ms), next_ms - 1}
            states.append(_State(snapshot_id=snapshot_id, instants_ms=sorted(instants)))
    return states


def _recorded(session: PipelineSession, kept: KeptVersions) -> Sequence[_Entry]:
    """The entries that batches since the load read, once each."""
    offsets = (session.checkpoint.known_offset(number) for number in range(kept.load, kept.last + 1))
    steps = (step for offset in offsets for step in offset.spec.steps)
    return [*dict.fromkeys((step.end_snapshot_id, step.made_current_at_ms or 0) for step in steps)]


def _with_expired(entries: list[_Entry], recorded: Sequence[_Entry], there: Container[int]) -> list[_Entry]:
    """A log with the entries that PyIceberg's expiry took out of it, as if the state before had stayed current.

    >>> _with_expired([(1, 10), (3, 30)], [(1, 10), (2, 20), (3, 30)], {1, 3})
    [(1, 10), (2, 20), (3, 30)]
    """
    whole, first, places = list[_Entry](), 0, {entry: place for place, entry in enumerate(entries)}
    for entry in recorded:
        if (place := places.get(entry, -1)) >= first:
            whole += entries[first : place + 1]
            first = place + 1
        elif entry[0] not in there:
            whole.append(entry)
    return whole + entries[first:]


@dataclass(frozen=True, slots=True)
class _Past:
    session: PipelineSession
    kept: KeptVersions
    shape: RowShape

    def of_history(self, instants_ms: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Of the versions valid at each instant: their number, and both halves of their hashes added up."""
        sums = np.zeros((3, len(instants_ms) + 1), np.uint64)
        for rows in self.kept.read():
            # A version counts from the first instant on that is not before it, and so it ends.
            begin, end = (np.searchsorted(instants_ms * 1000, times) for times in _interval(rows))
            for row, values in zip(sums, self._summands(rows), strict=True):
                np.add.at(row, begin, values)
                np.subtract.at(row, end, values)
        return np.cumsum(sums, axis=1, dtype=np.uint64)

    def of_table(self, snapshot_id: int) -> NDArray[np.uint64]:
        """The same of the rows of the table at a snapshot."""
        total = np.zeros(3, np.uint64)
        # What is read of the manifests of one state is not kept for all others.
        alone = replace(self.session, table=LoadedTable(self.session.table.pyiceberg))
        for rows in TableState.at(alone, self.shape, snapshot_id).rows():
            total += np.array([values.sum(dtype=np.uint64) for values in self._summands(rows)])
        return total

    def first_difference(self, states: Sequence[_State]) -> tuple[int, int] | None:
        """The first state, and instant, at which the history is not the table."""
        found = self.of_history(np.array([instant for state in states for instant in state.instants_ms], np.int64))
        place = 0
        for state in states:
            wanted = self.of_table(state.snapshot_id)
            for instant_ms in state.instants_ms:
                if (found[:, place] != wanted).any():
                    return state.snapshot_id, instant_ms
                place += 1
        return None

    def difference(self, snapshot_id: int, instant_ms: int) -> str:
        """The first version or row that has no counterpart; both are read again."""
        valid = [rows.select(self.kept.columns) for rows in self._valid_at(instant_ms * 1000)]
        there = [*TableState.at(self.session, self.shape, snapshot_id).rows()]
        for own, other, words in ((valid, there, "a version that the table lacks"), (there, valid, "no version of")):
            hashes = RowHashes.concat(map(self._hashes, other)).to_column()
            for rows in own:
                alone = rows.filter(pc.invert(pc.is_in(self._hashes(rows).to_column(), value_set=hashes)))
                if alone.num_rows:
                    [row] = plain_rows(alone.select(self.kept.columns).slice(0, 1))
                    return f"the history has {words}: {', '.join(f'{name}={value}' for name, value in row.items())}"
        return "the history has a row in another number than the table"

    def _valid_at(self, instant_us: int) -> Iterator[pa.RecordBatch]:
        for rows in self.kept.read():
            begin, end = _interval(rows)
            yield rows.filter(pa.array((begin <= instant_us) & (end > instant_us)))

    def _summands(self, rows: pa.RecordBatch) -> tuple[NDArray[np.uint64], ...]:
        hashes = self._hashes(rows)
        return np.ones(len(hashes), np.uint64), hashes.high, hashes.low

    def _hashes(self, rows: pa.RecordBatch) -> RowHashes:
        return RowHashes.of([rows.column(name) for name in self.kept.columns], key=self.shape.hash_key)


def _interval(rows: pa.RecordBatch) -> Iterable[NDArray[np.int64]]:
    """The first two columns in microseconds; a version without an end is valid for ever."""
    for number in range(2):
        times = rows.column(number).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        yield times.fill_null(np.iinfo(np.int64).max).to_numpy()
