"""A pipeline and its operators, and the proof that each batch and each move of the cursor is what was announced."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from faults.place import Place, session_of
from faults.scenarios import SCENARIOS
from icefloe.batch.context.already_finished import errors_count_if_unchanged
from icefloe.batch.context.end_batch import EmptyEnd
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.upkeep.abandoned_batch import AbandonablePipeline
from icefloe.batch.upkeep.cursor_moves import CursorChange, PipelineReset, complete_unfinished, make_move
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.checkpoint.ending import BatchOutcome
from icefloe.checkpoint.records import CommitRecord
from support.pipelines.replay import delivered_rows, table_rows
from support.tables.table_states import TableStates

__all__ = ["OperatedPlace"]


@dataclass(frozen=True, kw_only=True)
class OperatedPlace:
    """A pipeline with one delivered batch, a table that moved on since, and operators.

    Attributes:
        place: of the pipeline, its stores and its table.
        moves: numbers of the batches that the operators were told to have moved the cursor.
    """

    place: Place
    moves: set[int] = field(default_factory=set)

    @classmethod
    def create(cls, folder: Path, states: TableStates, *, is_open: bool) -> Self:
        """Everything in place for a command; a run may have died with its batch planned."""
        made = cls(place=SCENARIOS["changes"].place(folder, states))
        if is_open:
            open_and_plan(made.session)
        return made

    @property
    def session(self) -> PipelineSession:
        """A new session of the pipeline."""
        return session_of(self.place.pipelines[0])

    def run(self) -> None:
        """A run finishes a batch, and another one the next, with something new in it."""
        self.place.others()

    def backfill(self) -> None:
        """A run delivers a range of its own."""
        self.place.deliver(self.place.pipelines[0], RequestedRange(up_to_snapshot_id=self.snapshot_id(-1)))

    def reset(self) -> None:
        """``icefloe reset --yes``."""
        with self._changing() as session:
            complete_unfinished(session)
            found = PipelineReset.plan(session)
            if found is not None:
                self._was_told(make_move(session, found.offset), BatchOutcome.RESET)

    def set_cursor(self) -> None:
        """``icefloe set-cursor --yes``: leaves a commit out."""
        self._set_cursor(-2)

    def set_cursor_back(self) -> None:
        """``icefloe set-cursor --yes``: to a commit that was delivered."""
        self._set_cursor(1)

    def abandon(self) -> None:
        """``icefloe abandon --yes``."""
        with self._changing() as session:
            pipeline = AbandonablePipeline(
                pipeline=session.pipeline, credentials=session.credentials, writer=session.writer
            )
            end = pipeline.find()
            if isinstance(end, EmptyEnd):
                pipeline.abandon(end)
            elif end is not None:
                pipeline.record_as_done(end)

    def abandon_and_reset(self) -> None:
        """An operator who begins again although a batch is open."""
        self.abandon()
        self.reset()

    def sweep(self) -> None:
        """``icefloe sweep --yes``."""
        self.place.sweep()

    def snapshot_id(self, position: int) -> int:
        """A snapshot of the table, by its position in the history."""
        return self.place.shown.table().metadata.snapshots[position].snapshot_id

    def require_announced(self) -> None:
        """Each batch begins where the cursor was and holds the difference of two states; what was told is recorded."""
        path = self.place.pipelines[0]
        while self.place.deliver(path):
            pass
        self.place.sweep()
        assert {each.batch_number for each in self._commits() if is_move(each)} == self.moves
        position, held = None, Counter[tuple[Any, ...]]()
        for commit in self._commits():
            if is_move(commit):
                # What readers hold then is what the table was at the snapshot of the cursor.
                position, held = commit.up_to_snapshot_id, self._state(commit.up_to_snapshot_id)
                continue
            if commit.outcome is not BatchOutcome.ABANDONED:
                begins_with_load = position is None and commit.after_snapshot_id == commit.up_to_snapshot_id
                assert begins_with_load or commit.after_snapshot_id == position, commit
                position = commit.up_to_snapshot_id
                held.update(delivered_rows(self._sink / f"batch={commit.batch_number}", self.place.columns))
            assert +held == self._state(position), commit
            assert not -held, commit
        assert position == self.snapshot_id(-1)
        for manifest in self._sink.glob("_backfills/*/batch=0/_manifest.json"):
            up_to = json.loads(manifest.read_text())["batch"]["up_to_snapshot_id"]
            assert delivered_rows(manifest.parent, self.place.columns) == self._state(int(up_to))
        assert verify_batches(self.session).sentences == ()
        self.place.require_clean()

    def _set_cursor(self, position: int) -> None:
        with self._changing() as session:
            complete_unfinished(session)
            found = CursorChange.plan(session, self.snapshot_id(position))
            if found is not None:
                self._was_told(make_move(session, found.offset), BatchOutcome.CURSOR_SET)

    @contextmanager
    def _changing(self) -> Iterator[PipelineSession]:
        """A session for a command; its errors count as those of the command line."""
        session = self.session
        with errors_count_if_unchanged(session.checkpoint, pipeline=session.pipeline.name):
            yield session

    def _was_told(self, commit: CommitRecord, outcome: BatchOutcome) -> None:
        assert commit.outcome is outcome
        self.moves.add(commit.batch_number)

    def _commits(self) -> Iterator[CommitRecord]:
        """The records of all batches; numbers have no gaps."""
        checkpoint = self.session.checkpoint
        number = 0
        while checkpoint.offset(number) is not None:
            commit = checkpoint.committed(number)
            assert commit is not None
            yield commit
            number += 1

    def _state(self, snapshot_id: int | None) -> Counter[tuple[Any, ...]]:
        if snapshot_id is None:
            return Counter()
        return table_rows(self.place.shown.table(), self.place.columns, snapshot_id=snapshot_id)

    @property
    def _sink(self) -> Path:
        return self.place.folder / self.place.pipelines[0].stem / "changes"


def is_move(commit: CommitRecord) -> bool:
    """True if the batch only moved the cursor."""
    return commit.outcome in (BatchOutcome.RESET, BatchOutcome.CURSOR_SET)
