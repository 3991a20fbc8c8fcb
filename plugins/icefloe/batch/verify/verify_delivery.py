"""A delivery sink, compared with the table at the cursor."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.report import BatchReport
from icefloe.batch.verify.delivery_findings import (
    KINDS,
    SHOWN,
    DeliveryFindings,
    KeyDifference,
    KeyDifferences,
    Retention,
    dead_letters_note,
    key_values,
    left_out_note,
    named,
)
from icefloe.batch.verify.key_ranges import ROWS_PER_RANGE, KeyRange, divided_keys, ranged_column
from icefloe.batch.verify.sink_rows import SinkRows, WrittenColumns
from icefloe.batch.verify.table_state import TableState, committed_batches, delivered_shape, since_last_load
from icefloe.batch.verify.verify_batches import missing_manifests
from icefloe.batch.verify.verify_versions import verify_versions
from icefloe.changes.columns import ChangeType
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.records import Cursor, OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError, TransientError, UsageError
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.sinks.sink import Sink
from icefloe.storage.local_folders import on_local_disk, task_folder

__all__ = ["verify_delivery"]

Found = TypeVar("Found")
_LOG: Final = logging.getLogger(__name__)
_LOOKS: Final = 5
"""Tries to read keys while no batch begins or ends."""
_CHANGES_OF_A_LETTER: Final = 2
"""The rows before and after an update are one message."""


def verify_delivery(
    session: PipelineSession, sink: Sink, *, first: int | None = None, rows_per_range: int = ROWS_PER_RANGE
) -> DeliveryFindings:
    """Compares a sink with the table, key by key; changes nothing.

    Batches may go on meanwhile. If a sink says which batch its rows are of, it is compared with the table at the end of
    this very batch, one range of keys after the other. Otherwise differing keys are read again between two looks at the
    checkpoint that agree. Each must be as the table was at the cursor or will be at the end of the open batch.

    Args:
        first: smaller keys are left out.
        rows_per_range: rows that are compared between two looks at the batch that the sink has.
    """
    if sink.reads_ranges:
        found = _by_ranges(session, sink, first=first, rows_per_range=rows_per_range)
        return replace(found, sentences=(*found.sentences, *missing_manifests(session)))
    if first is not None:
        raise UsageError(f"{sink.url} is read as a whole: leave out --from")
    view = session.checkpoint.look()
    delivered = session.checkpoint.last_delivered(before=view.next_number)
    if view.pipeline is None or view.cursor is None or delivered is None:
        # There is a cursor also if it was set for a new pipeline.
        return DeliveryFindings(url=sink.url, notes=("no batch is delivered yet",))
    if view.cursor.load_part is not None:
        return DeliveryFindings(url=sink.url, notes=("the load is not complete; verify again after its last batch",))
    # Loaded after the look: a snapshot that the cursor names is then in the table, or is gone for good.
    comparison = _Comparison(session.with_fresh_table(), sink, view, view.cursor, view.pipeline)
    found = comparison.by_keys() if comparison.has_keys else comparison.without_keys()
    return replace(found, sentences=(*found.sentences, *missing_manifests(session)))


def _by_ranges(session: PipelineSession, sink: Sink, *, first: int | None, rows_per_range: int) -> DeliveryFindings:
    held, compared = _as_of_last_batch(session, sink)
    ranges = compared.ranges(first, rows_per_range)
    if not compared.has_keys:
        rows, _, _ = _while_it_has(held, compared, session, sink, find=_Comparison.without_keys)
        return rows
    found, go_on = KeyDifferences(), first
    for within in ranges:
        # From the first range with differences on, all is to be compared again.
        is_faulty = found.counts or found.doubled or (found.ambiguous and sink.wants_unique_keys)
        go_on = go_on if is_faulty or within is None else within.first
        try:
            find = partial(_Comparison.differences, within=within)
            part, held, compared = _while_it_has(held, compared, session, sink, find=find)
        except TransientError as error:
            if go_on is None:
                raise
            raise error.restated(f"{error.sentence}; go on with --from {go_on}") from error
        found = found.plus(part)
        _LOG.info("%s: %d keys of %s differ, %d rows compared", sink.url, found.counts.total(), within, found.rows)
    return compared.findings(found)


def _while_it_has(
    held: int, compared: "_Comparison", session: PipelineSession, sink: Sink, *, find: Callable[["_Comparison"], Found]
) -> tuple[Found, int, "_Comparison"]:
    """The findings while a sink kept one batch, and that batch: the held one, or one that came meanwhile."""
    for _ in range(_LOOKS):
        found = find(compared)
        if sink.last_batch(compared.origin) == held:
            return found, held, compared
        held, compared = _as_of_last_batch(session, sink)
    raise _moved(session, sink)


def _as_of_last_batch(session: PipelineSession, sink: Sink) -> tuple[int, "_Comparison"]:
    """The last batch that a sink has, and the comparison with the table as it was at its end."""
    name, checkpoint = session.pipeline.name, session.checkpoint
    for _ in range(_LOOKS):
        view = checkpoint.look()
        delivered = checkpoint.last_delivered(before=view.next_number)
        if view.pipeline is None or view.cursor is None or delivered is None:
            # Who waits for a proof must not take this for one.
            raise TransientError(f"no batch of {name} is delivered to {sink.url} yet: run it, then verify again")
        held = sink.last_batch(session.origin(view.pipeline.checkpoint_id))
        # A batch that is delivered and not yet committed leads to another state than the cursor.
        opened = view.opened if view.opened is not None and held == view.opened.batch_number else None
        if held is not None and (held == delivered or opened is not None):
            return held, _Comparison(session.with_fresh_table(), sink, view, view.cursor, view.pipeline, opened)
    if held is None or delivered is None or held < delivered:
        raise TerminalError(
            f"{sink.url} ends with batch {'none' if held is None else held}, and batch {delivered} of {name} was "
            "delivered: it was restored from a backup, or is another one; correct the sink, or run `icefloe reset "
            f"{name}`, which loads the table again",
            url=sink.url,
        )
    raise _moved(session, sink)


def _moved(session: PipelineSession, sink: Sink) -> TransientError:
    return TransientError(
        f"batches of {session.pipeline.name} followed one another while {sink.url} was read; pause the pipeline, and "
        "verify again when no batch is open",
        url=sink.url,
    )


class _Comparison:
    def __init__(
        self,
        session: PipelineSession,
        sink: Sink,
        view: CheckpointView,
        cursor: Cursor,
        pipeline: PipelineRecord,
        opened: OffsetRecord | None = None,  # its end is compared, in place of the cursor
    ) -> None:
        end = cursor if opened is None else opened.ending.cursor
        session.table.history.require_same(end.snapshot)
        self._session, self._sink, self._position = session, sink, view.position
        self.origin = session.origin(pipeline.checkpoint_id)
        self._snapshot_id = end.snapshot_id
        self._batches = since_last_load(committed_batches(session), or_move=True)
        # A pipeline of inserts alone has committed a batch that removes rows only if it left some of its steps out.
        is_reduced = session.pipeline.changes == "append_only"
        self._reduced = [batch for batch in self._batches if is_reduced and ChangeType.removed_rows(batch.counts)]
        first, last = self._batches[0], self._batches[-1]
        self._has_load = first.after_snapshot_id is None and (first.steps > 0 or first.end.snapshot_id is None)
        after_snapshot_id = last.after_snapshot_id if opened is None else opened.spec.after_snapshot_id
        schema = TableSchema.at(session.table.metadata, end.snapshot_id, after_snapshot_id=after_snapshot_id)
        self._identity = pipeline.identity.named_by(schema.columns.find_column_name)
        self._shape = delivered_shape(session, schema, self._identity)
        written = WrittenColumns(session, self._shape.delivered, first_batch=first.batch_number)
        self._rows = SinkRows(sink, self._shape, written, first_batch=first.batch_number)

    @property
    def has_keys(self) -> bool:
        return self._rows.has_keys

    def by_keys(self) -> DeliveryFindings:
        """All rows of the table, and all that the sink holds."""
        state = self._state(self._snapshot_id)
        rows = self._most_rows(state.record_count)
        with _folders() as (wanted, held):
            found = KeyDifferences.between(
                self._rows.of_table(state, wanted, rows=rows),
                self._rows.of_sink(held, rows=rows),
                is_log=not self._sink.keyed,
            )
        retention = self._retention()
        # If the first batch is not there as a whole, the last change of a key may be gone too.
        first = Retention.of(self._batches[:1], self._rows.retained, has_before_images=self._has_before_images)
        needs_all = self._has_load and (not first.lost or not self._may_lack_oldest)
        return self._findings(self._settled(found), state.record_count, needs_all=needs_all, retention=retention)

    def ranges(self, first: int | None, rows_per_range: int) -> Sequence[KeyRange | None]:
        """The ranges of keys from a key on; one, which is None, if keys have no order that all sides share."""
        column = ranged_column(self._rows.names, self._shape.delivered.arrow)
        if column is not None:
            files = self._state(self._snapshot_id).key_bounds(column)
            return divided_keys(column, files, first=first, rows_per_range=rows_per_range)
        if first is not None:
            raise UsageError(f"{self._sink.url} has no key that begins with a whole number: leave out --from")
        return [None]

    def differences(self, within: KeyRange | None) -> KeyDifferences:
        """The keys of a range that differ, and did so when they were read once more."""
        state = self._state(self._snapshot_id)
        with _folders() as (wanted, held):
            found = KeyDifferences.between(
                self._rows.of_table(state, wanted, rows=state.record_count, within=within),
                self._rows.of_sink(held, rows=state.record_count, within=within),
                is_log=False,
            )
        if not found.counts or not found.is_complete:
            return found
        again = self._differences(found.kept, [self._snapshot_id], within=within)
        return replace(found, counts=again.counts, kept=again.kept)

    def findings(self, found: KeyDifferences) -> DeliveryFindings:
        """The findings of differences in all ranges, and in the past of the table, if the sink keeps that too."""
        findings = self._findings(found, found.rows, needs_all=True, retention=Retention())
        versions = verify_versions(self._session, self._sink, self._shape, self._identity.columns)
        if versions is None:
            return findings
        sentence, agrees = versions
        if agrees:
            return replace(findings, notes=(*findings.notes, sentence))
        return replace(findings, sentences=(*findings.sentences, sentence))

    def without_keys(self) -> DeliveryFindings:
        """The number of differing rows, which do not show their identity."""
        state, url = self._state(self._snapshot_id), self._sink.url
        rows = self._rows.difference(state)
        retention = self._retention()
        # A sink that says which batch it has was compared with the end of that one.
        may_differ = retention.lost or self._hides_removed_rows or not self._has_load or self._has_moved()
        if may_differ and not self._sink.reads_ranges:
            note = "rows without identity are compared only if the sink holds all changes and no batch is open"
            return DeliveryFindings(url=url, notes=(*retention.notes(url), note), sentences=retention.faults(url))
        table = self._session.pipeline.table
        fault = f"{rows:,} rows of {table} at snapshot {self._snapshot_id} are missing or too many in {url}"
        is_explained = rows <= self._left_out
        return DeliveryFindings(
            url=url,
            snapshot_id=self._snapshot_id,
            rows=state.record_count,
            sentences=(*retention.faults(url), *([] if is_explained else [fault])),
            notes=(left_out_note(rows, "rows", self._left_out),) if rows and is_explained else (),
        )

    def _retention(self) -> Retention:
        if self._sink.keyed:
            return Retention()
        whole = [batch for batch in self._batches if batch not in self._reduced]
        return Retention.of(
            whole, self._rows.retained, has_before_images=self._has_before_images, may_lack=self._may_lack
        )

    @cached_property
    def _may_lack_oldest(self) -> bool:
        """False if each key has a row or a change at the sink."""
        return not self._sink.keyed and self._sink.may_lack_oldest()

    @cached_property
    def _may_lack_changes(self) -> bool:
        # A load that began meanwhile hides all changes before it.
        return self._may_lack_oldest or self._sink.may_lack_replaced() or self._has_begun_anew()

    def _may_lack(self, number: int) -> int | None:
        """The most changes of a batch that a log may lack; None: all."""
        if self._may_lack_changes:
            return None
        delivery = BatchReport.load(self._session.checkpoint, number, backfill_id=self._session.backfill_id).delivery
        # A report that somebody deleted excuses nothing.
        return 0 if delivery is None else delivery.dead_letters * _CHANGES_OF_A_LETTER

    @property
    def _has_before_images(self) -> bool:
        """True if a log holds the row before each update."""
        return self._sink.shows_removed_rows and self._session.pipeline.changes != "upsert"

    @property
    def _hides_removed_rows(self) -> bool:
        """True if rows cannot be added up."""
        if self._sink.keyed or self._has_before_images:
            return False
        # A log without keys shows the rows that were deleted, because nothing else would say which are gone.
        has_keys = not self._sink.shows_removed_rows and bool(self._identity.columns)
        kinds = ("update_before", "delete") if has_keys else ("update_before",)
        return any(batch.counts.get(kind, 0) for batch in self._batches for kind in kinds)

    @property
    def _left_out(self) -> int:
        """The most changes that were left out because their commits remove rows."""
        return sum(sum(batch.counts.values()) for batch in self._reduced)

    def _settled(self, found: KeyDifferences) -> KeyDifferences:
        """Without differences that come from batches delivered meanwhile."""
        url = self._sink.url
        if not found.counts or not self._has_moved():
            return found
        if not found.is_complete:
            raise TransientError(
                f"{found.counts.total():,} keys of {url} differ while batches are delivered, too many to read them "
                "again; pause the pipeline, and verify again when no batch is open",
                url=url,
            )
        for _ in range(_LOOKS):
            before = self._session.checkpoint.look()
            self._session = self._session.with_fresh_table()
            cursor = self._snapshot_id if before.cursor is None else before.cursor.snapshot_id
            opened = cursor if before.opened is None else before.opened.spec.up_to_snapshot_id
            remaining = self._differences(found.kept, list(dict.fromkeys([cursor, opened])))
            if self._session.checkpoint.look().position == before.position:
                self._snapshot_id = cursor
                return replace(found, counts=remaining.counts, kept=remaining.kept)
        raise _moved(self._session, self._sink)

    def _differences(
        self, chosen: pa.Table, snapshot_ids: Sequence[int | None], *, within: KeyRange | None = None
    ) -> KeyDifferences:
        """Differences that are there at each snapshot; the sink is read by the keys."""
        found = KeyDifferences()
        if not len(chosen):
            return found
        [keys] = key_values(chosen, self._rows.names).combine_chunks().to_batches()
        rows = self._most_rows(len(chosen))
        for place, snapshot_id in enumerate(snapshot_ids):
            with _folders() as (wanted, held):
                state, sought = self._state(snapshot_id), pc.unique(chosen["key"])
                now = KeyDifferences.between(
                    self._rows.of_table(state, wanted, rows=rows, keys=sought, within=within),
                    self._rows.of_sink(held, rows=rows, keys=keys),
                    is_log=not self._sink.keyed,
                )
            found = found.only(now.kept["key"].combine_chunks()) if place else now
        return found

    def _most_rows(self, rows: int) -> int:
        """About the rows of the larger side: a log has each change."""
        return rows if self._sink.keyed else max(rows, sum(sum(batch.counts.values()) for batch in self._batches))

    def _findings(
        self,
        found: KeyDifferences,
        rows: int,
        *,
        needs_all: bool,
        retention: Retention,
    ) -> DeliveryFindings:
        """Rows that need not be at the sink do not count; with ``needs_all`` it must hold keys that never changed."""
        url, names, table = self._sink.url, self._rows.names, self._session.pipeline.table
        there, is_unique = f"{table} at snapshot {self._snapshot_id}", self._sink.wants_unique_keys
        counts, absent = Counter(found.counts), 0
        said = [*(dead_letters_note(self._sink) if counts else ()), *retention.notes(url)]
        if counts[KeyDifference.MISSING] and not needs_all:
            absent = counts.pop(KeyDifference.MISSING)
            said.append(f"{absent:,} keys of {table} have no change in {url}, and were not compared")
        if found.ambiguous and not is_unique:
            said.append(f"{found.ambiguous:,} keys of {table} have several rows; any of them is right in {url}")
        keys = {
            kind: named(found.kept.filter(pc.equal(found.kept["kind"], kind)), names) for kind in KINDS if counts[kind]
        }
        sentences = [*retention.faults(url)]
        if found.ambiguous and is_unique:
            shown = [text for some in found.ambiguous_kept for text in named(some, names)][:SHOWN]
            sentences.append(
                f"{found.ambiguous:,} keys of {there} have several rows, and {url} shows one row per key: "
                f"{', '.join(shown)}{', ...' if found.ambiguous > len(shown) else ''}; correct the table or "
                "identifier_columns, or write `duplicates: keep_one`"
            )
        is_explained = 0 < counts.total() <= self._left_out
        if is_explained:
            said.append(left_out_note(counts.total(), "keys", self._left_out))
        for kind, shown in () if is_explained else keys.items():
            more = ", ..." if counts[kind] > len(shown) else ""
            sentences.append(f"{counts[kind]:,} keys of {there} are {KINDS[kind]} {url}: {', '.join(shown)}{more}")
        if found.doubled:
            sentences.append(
                f"{found.doubled:,} rows in {url} have the key of another row there; expected one row per key"
            )
        return DeliveryFindings(
            url=url,
            snapshot_id=self._snapshot_id,
            rows=rows - absent,
            uncompared=absent,
            counts=dict(+counts),
            keys=keys,
            sentences=tuple(sentences),
            notes=tuple(said),
        )

    def _has_moved(self) -> bool:
        now = self._session.checkpoint.look()
        return now.opened is not None or now.position != self._position

    def _has_begun_anew(self) -> bool:
        now = self._session.checkpoint.look()
        if now.cursor is None or now.cursor.is_beginning:
            return True
        if now.opened is not None and now.opened.spec.after_snapshot_id is None:
            return True
        return since_last_load(committed_batches(self._session), or_move=True)[0].batch_number != self._rows.first_batch

    def _state(self, snapshot_id: int | None) -> TableState:
        return TableState.at(self._session, self._shape, snapshot_id)


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    with task_folder("verify") as folder:
        made = folder / "wanted", folder / "held"
        with on_local_disk(f"rows cannot be compared in {folder}"):
            for each in made:
                each.mkdir()
        yield made
