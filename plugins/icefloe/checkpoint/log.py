"""The checkpoint of a pipeline: which batches were opened, which are done, and whose it is."""

import logging
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

from icefloe.checkpoint.protocol import BatchState
from icefloe.checkpoint.record_store import (
    BACKFILLS,
    PIPELINE,
    RESTORE,
    STATUS,
    RecordStore,
    backfill_prefix,
    commit_key,
    has_open_batch,
    offset_key,
    owner_key,
    report_key,
)
from icefloe.checkpoint.records import (
    BatchOutcome,
    CommitRecord,
    Cursor,
    OffsetRecord,
    OwnerRecord,
    PipelineRecord,
    Writer,
)
from icefloe.errors import TerminalError, TransientError
from icefloe.storage.store import Store
from icefloe.units import now_text

__all__ = ["Checkpoint", "CheckpointView"]

logger = logging.getLogger(__name__)

_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """A checkpoint when a run looked. It may be outdated by the time it is used.

    That does no harm. A batch that is decided from a view names the view's ``cursor`` as the end that it follows, and
    can only be created as the very next batch.

    Attributes:
        checkpoint_id: from the owner's record or, if ``owners/`` is lost, from the last batch; None before the first
            batch.
        pipeline: None before the first batch.
        owner: None before the first batch.
        cursor: end of the last committed batch; None if there is none.
        opened: the batch that was opened and is not done; None if there is none.
    """

    checkpoint_id: str | None = None
    pipeline: PipelineRecord | None = None
    owner: OwnerRecord | None = None
    cursor: Cursor | None = None
    opened: OffsetRecord | None = None

    @property
    def next_number(self) -> int:
        """Number of the batch that follows the cursor."""
        return 0 if self.cursor is None else self.cursor.batch_number + 1

    @property
    def backfilled_number(self) -> int | None:
        """The number of the batch by which a backfill delivered its range; None if it has not.

        A backfill is one batch, which follows only abandoned ones. These leave the cursor at the beginning.
        """
        return None if self.cursor is None or self.cursor.is_beginning else self.cursor.batch_number

    def state_of(self, batch_number: int) -> BatchState:
        """Free, open or ended; a free number may have been opened since the look."""
        if batch_number < self.next_number:
            return BatchState.ENDED
        is_open = self.opened is not None and batch_number == self.opened.batch_number
        return BatchState.OPEN if is_open else BatchState.FREE

    @property
    def position(self) -> tuple[int, bool]:
        """Progress of the pipeline: grows with each batch that is opened or committed."""
        return self.next_number, self.opened is not None


def _range(record: OffsetRecord | CommitRecord) -> str:
    spec = record.spec if isinstance(record, OffsetRecord) else record
    files = "" if spec.load_part is None else f", {spec.load_part}"
    return f"after {spec.after_snapshot_id} up to {record.ending.cursor.snapshot_id}{files}"


class Checkpoint:
    """Records of a pipeline, or of a backfill of it, created only if absent: the first writer counts.

    Batches are numbered 0, 1, 2, ... without gaps, and a batch is opened only when the one before is committed. So the
    latest batch is found by single keys, and at most one batch is open. Methods that read a record raise
    `TerminalError` if it is damaged, or written by another release.

    It has one owner at a time. That is no lock: it keeps two deployments apart that were given it by mistake.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = RecordStore(store)

    @property
    def url(self) -> str:
        """URL of the checkpoint."""
        return self._store.url

    def backfill(self, backfill_id: str) -> "Checkpoint":
        """Checkpoint of a backfill of this pipeline."""
        return Checkpoint(self._store.child(backfill_prefix(backfill_id)))

    def open_backfills(self) -> list[str]:
        """Ids of backfills that have an open batch, by one listing; each may end meanwhile."""
        records: dict[str, set[str]] = defaultdict(set)
        for each in self._store.list(BACKFILLS):
            backfill_id, _, key = each.key.removeprefix(f"{BACKFILLS}/").partition("/")
            records[backfill_id].add(key)
        return sorted(backfill_id for backfill_id, keys in records.items() if has_open_batch(keys))

    def pipeline(self, cursor: Cursor | None = None) -> PipelineRecord | None:
        """Record of the pipeline after a cursor (None: as the checkpoint was made); None before its first batch."""
        since = None if cursor is None else cursor.pipeline_since
        if since is None:
            return self._records.load(PipelineRecord, PIPELINE)
        return self.known_offset(since).pipeline

    def create_pipeline(self, record: PipelineRecord, cursor: Cursor | None = None) -> PipelineRecord:
        """Records the pipeline; returns the record that counts after a cursor."""
        if cursor is not None and cursor.pipeline_since is not None:
            return self.pipeline(cursor) or record
        return self._records.create(record, PIPELINE)

    def look(self) -> CheckpointView:
        """Everything that decides which batch comes next, in one look."""
        # Read one after another, so another run may go on meanwhile and the view is older than the checkpoint. It
        # cannot be wrong, because records only come, in the order offset 0, commit 0, offset 1, ...
        #   what is there                        latest   committed   so
        #   offsets/0                            0        no          batch 0 is open, there is no cursor
        #   offsets/0  commits/0                 0        yes         the cursor is the end of 0
        #   offsets/0  commits/0  offsets/1      1        no          batch 1 is open, the cursor is the end of 0
        latest = self.latest_batch()
        commit = None if latest is None else self.committed(latest)
        opened = None if latest is None or commit is not None else self.known_offset(latest)
        # An open batch has no end of its own yet: the cursor is still the end of the batch before it.
        if opened is not None and opened.batch_number > 0:
            commit = self._committed_before(opened.batch_number)
        cursor = None if commit is None else commit.end
        pipeline, owner = self.pipeline(cursor), self.owner()
        records = (owner, opened, commit, pipeline)
        return CheckpointView(
            checkpoint_id=next((each.checkpoint_id for each in records if each), None),
            pipeline=pipeline,
            owner=owner,
            cursor=cursor,
            opened=opened,
        )

    def owner(self) -> OwnerRecord | None:
        """The last owner; None before the first batch."""
        number = self._records.last_number(owner_key)
        return None if number is None else self._records.known(OwnerRecord, owner_key(number), number=number)

    def claim_for(self, writer: Writer, *, takes_over: bool = False, new_id: str | None = None) -> OwnerRecord:
        """Makes sure that a writer may write; a checkpoint of nobody in particular becomes the writer's.

        `TerminalError` if it belongs to another owner.
        """
        for _ in range(_TRIES):
            current = self.owner()
            if current is not None and current.writer.owner == writer.owner:
                return current
            if current is not None and current.writer.owner is not None and not takes_over:
                raise self._other_owner(current, writer)
            # Owners are numbered like batches: of two runs that take over at once, one finds the number taken and looks
            # again.
            wanted = self._next_owner(current, writer, new_id)
            created = self._records.create(wanted, owner_key(wanted.number))
            if created == wanted:
                logger.info("%s belongs to %s from now on", self.url, writer)
                return created
        raise TransientError(f"the owner of {self.url} changed while this run asked for it; run again", url=self.url)

    def other_owner(self, writer: Writer) -> OwnerRecord | None:
        """The owner, unless that is the writer's or nobody in particular."""
        current = self.owner()
        return current if current is not None and current.writer.owner not in (None, writer.owner) else None

    def refuse_other(self, writer: Writer) -> None:
        """Raises `TerminalError` for anybody but the owner."""
        current = self.other_owner(writer)
        if current is not None:
            raise self._other_owner(current, writer)

    def latest_batch(self) -> int | None:
        """The highest batch number; None before the first batch. Look-ups are logarithmic in it."""
        return self._records.last_number(offset_key)

    def offset(self, batch_number: int) -> OffsetRecord | None:
        """Offset record of a batch; None if it was never opened."""
        return self._records.load(OffsetRecord, offset_key(batch_number), number=batch_number)

    def known_offset(self, batch_number: int) -> OffsetRecord:
        """Offset record of a batch that was opened; `TerminalError` if it is gone."""
        return self._records.known(OffsetRecord, offset_key(batch_number), number=batch_number)

    def create_offset(self, record: OffsetRecord) -> OffsetRecord:
        """Opens a batch; returns the record that counts, which another run may have written.

        Raises:
            TransientError: the batch before is still open, or ended elsewhere than this one begins.
            TerminalError: the batch before was never opened, or this one was and its record was removed.
        """
        number = record.batch_number
        # The checks come before the creation, and yet nothing can slip between: what they found stays true, because
        # records never go away, and if another run creates this number first, create returns its record. A batch that
        # is there is adopted whatever this run would have made of it. The owner is checked last, as close to the
        # creation as possible.
        if not self._is_opened(number):
            # A checkpoint without offsets/0.json looks like one that never began, and the whole table would be
            # delivered again. Only here, at the beginning, a listing can tell.
            is_committed = self._store.size(commit_key(number)) is not None
            has_later = number == 0 and any(True for _ in self._store.list("offsets"))
            if (is_committed or has_later) and not self._is_opened(number):
                raise TerminalError(
                    f"batch {number} of {self.url} cannot be opened: it or a later batch was open before, but "
                    f"{self._records.url_of(offset_key(number))} is gone; {RESTORE}",
                    url=self.url,
                    key=offset_key(number),
                )
            ended = None if number == 0 else self._committed_before(number).end
            if record.follows != ended:
                raise TransientError(
                    f"batch {number} of {self.url} was planned to follow {record.follows or 'nothing'}, but batch "
                    f"{number - 1} ended at {ended}: another run was faster; run again",
                    url=self.url,
                    batch_number=number,
                )
            self.refuse_other(record.opened_by)
        return self._records.create(record, offset_key(number))

    def committed(self, batch_number: int) -> CommitRecord | None:
        """Commit record of a batch; None if it is open or was never opened."""
        return self._records.load(CommitRecord, commit_key(batch_number), number=batch_number)

    def last_delivered(self, *, before: int) -> int | None:
        """Number of the last delivered batch before a given one; None if there is none since the pipeline began.

        Its sink must hold what the next one goes on from. A batch that was abandoned or set the cursor shows nothing of
        that.
        """
        for number in range(before - 1, -1, -1):
            found = self.committed(number)
            if found is None or found.end.is_beginning:
                return None
            if found.outcome is BatchOutcome.DELIVERED:
                return number
        return None

    def snapshots_left_by(self, cursor: Cursor | None) -> frozenset[int]:
        """Snapshots that the cursor was moved away from by hand, up to the last reset."""
        found: set[int] = set()
        while cursor is not None and not cursor.is_beginning and cursor.pipeline_since is not None:
            offset = self.offset(cursor.pipeline_since)
            if offset is None or offset.ending.outcome is not BatchOutcome.CURSOR_SET:
                break
            cursor = offset.follows
            if cursor is not None and cursor.snapshot_id is not None:
                found.add(cursor.snapshot_id)
        return frozenset(found)

    def create_commit(self, record: CommitRecord) -> CommitRecord:
        """Ends a batch and so moves the cursor; returns the record that counts.

        Without changes, no run may be able to deliver the batch any more.
        """
        number = record.batch_number
        offset = self.offset(number)
        if offset is not None:
            self._refuse_remade(offset, record.checkpoint_id)
        opened, is_as_opened = "it was never opened", False
        if offset is not None:
            opened = "it was opened to move the cursor" if offset.ending.is_move else f"it was opened {_range(offset)}"
            is_as_opened = (record.outcome, _range(record)) == (offset.ending.outcome, _range(offset))
        if offset is None or not (is_as_opened or record.outcome is BatchOutcome.ABANDONED):
            raise TerminalError(
                f"batch {number} of {self.url} cannot be committed {_range(record)}: {opened} "
                f"({self._records.url_of(offset_key(number))}); see whether two releases or checkpoints were mixed",
                url=self.url,
                batch_number=number,
            )
        if record.outcome is BatchOutcome.DELIVERED:
            record = replace(record, ending=offset.ending)
        if self.committed(number) is None:
            self.refuse_other(record.committed_by)
        return self._records.create(record, commit_key(number))

    def create_report(self, batch_number: int, report: bytes, *, checkpoint_id: str) -> bool:
        """Stores a report; False if the batch has one already, which counts."""
        self._refuse_remade(self.known_offset(batch_number), checkpoint_id)
        return self._store.create(report_key(batch_number), report)

    def report(self, batch_number: int) -> bytes | None:
        """The report of a batch; None if it has none."""
        return self._store.find(report_key(batch_number))

    def put_status(self, status: bytes) -> None:
        """Stores the status, in place of the one before."""
        self._store.put(STATUS, status)

    def status(self) -> bytes | None:
        """The last status; None if there is none."""
        return self._store.find(STATUS)

    def _refuse_remade(self, offset: OffsetRecord, checkpoint_id: str) -> None:
        """Batch 3 of a checkpoint that was deleted is not batch 3 of one that was made since under the same URL."""
        if offset.checkpoint_id != checkpoint_id:
            raise TerminalError(
                f"batch {offset.batch_number} of {self.url} was opened with the checkpoint {offset.checkpoint_id}, and "
                f"this run delivered it with {checkpoint_id}: the checkpoint was deleted and made again meanwhile, so "
                "this run has nothing to commit; start the pipeline again",
                url=self.url,
                batch_number=offset.batch_number,
            )

    def _is_opened(self, batch_number: int) -> bool:
        return self._records.is_there(offset_key(batch_number))

    def _committed_before(self, number: int) -> CommitRecord:
        """Without this a batch can neither be opened nor have been opened."""
        before = number - 1
        commit = self.committed(before)
        if commit is not None:
            return commit
        if self._is_opened(before) and not self._is_opened(number):
            raise TransientError(
                f"batch {number} of {self.url} cannot be opened: batch {before} is open; run again to finish it",
                url=self.url,
                batch_number=number,
            )
        key = commit_key(before) if self._is_opened(before) else offset_key(before)
        raise TerminalError(
            f"batch {number} of {self.url} cannot follow batch {before}: {self._records.url_of(key)} is missing, but "
            f"batches are numbered without gaps; {RESTORE}",
            url=self.url,
            key=key,
        )

    def _next_owner(self, current: OwnerRecord | None, writer: Writer, new_id: str | None) -> OwnerRecord:
        number, checkpoint_id = 0, new_id or uuid.uuid4().hex
        if current is not None:
            number, checkpoint_id = current.number + 1, current.checkpoint_id
        elif (pipeline := self.pipeline()) is not None:  # the first owner's record was lost
            checkpoint_id = pipeline.checkpoint_id
        return OwnerRecord(number=number, checkpoint_id=checkpoint_id, writer=writer, since=now_text())

    def _other_owner(self, current: OwnerRecord, writer: Writer) -> TerminalError:
        return TerminalError(
            f"the checkpoint {self.url} belongs to {current.writer} since {current.since}, but this run belongs to "
            f"{writer}: if both are the same deployment, set ICEFLOE_OWNER to {current.writer.owner} here; if the "
            "pipeline moved here, stop it there and run `ICEFLOE_OWNER=... icefloe run NAME --take-over` once; "
            "otherwise give this pipeline a name, checkpoint and sink.path of its own",
            url=self.url,
            owner=current.writer.owner,
        )
