"""Verify: the delivered changes, replayed on the start state, must give the end state, row for row."""

import logging
from dataclasses import replace
from typing import Final

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.recorded_pipeline import refuse_other_meaning
from icefloe.batch.verify.continuity import breaks_between
from icefloe.batch.verify.missing_manifests import missing_manifests
from icefloe.batch.verify.schema_run_replay import SchemaRunReplay, VerifyReport
from icefloe.batch.verify.schema_runs import schema_runs, since_last_start
from icefloe.checkpoint.cursor import BatchOutcome
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import TerminalError
from icefloe.pipeline.error_lines import with_lines

__all__ = ["found_batches", "verify_batches"]

logger = logging.getLogger(__name__)

_ROWS_PER_SLICE: Final = 1 << 24


def verify_batches(session: PipelineSession, *, rows_per_slice: int = _ROWS_PER_SLICE) -> VerifyReport:
    """Replays the changes of a pipeline since it last loaded the table; reads sink and table, changes nothing.

    Args:
        session: session of the pipeline.
        rows_per_slice: rows whose hashes are held at once; a larger table is read several times.

    Raises:
        ConfigurationChangedError: the table was replaced, or keys like ``sink.path`` edited, since the first batch.
        TerminalError: a state that is needed, or the schema of a batch, has expired; a manifest is gone.
        TransientError: the sink or the table's files did not answer.
    """
    sink = session.folder_of_changes
    recorded = session.checkpoint.look().pipeline
    if recorded is not None:
        refuse_other_meaning(session, recorded)
    session, committed = found_batches(session)
    batches = since_last_start(committed)
    with with_lines(session.pipeline):
        replays = [SchemaRunReplay(session, sink, schema_run) for schema_run in schema_runs(session.table, batches)]
    found = [replay.run(rows_per_slice) for replay in replays]
    return VerifyReport(
        batches=sum(each.batches for each in found),
        changes=sum(each.changes for each in found),
        rows=found[-1].rows if found else 0,
        differing_rows=sum(each.differing_rows for each in found),
        sentences=(
            *breaks_between(session.checkpoint, committed_batches(session)),
            *(sentence for each in found for sentence in each.sentences),
            *missing_manifests(session),
        ),
        notes=tuple(note for each in found for note in each.notes),
    )


def found_batches(session: PipelineSession) -> tuple[PipelineSession, list[CommitRecord]]:
    """The session and `committed_batches`, by the ids that their snapshots have in the session's table then.

    See `LoadedTable.found`: an id that was used again names two states, of which the earlier one has the negative id.
    """
    found: list[CommitRecord] = []
    before: tuple[int | None, int | None] = None, None
    for batch in committed_batches(session):
        session, end = session.with_cursor(batch.end)
        after_id = before[1] if batch.after_snapshot_id == before[0] else batch.after_snapshot_id
        if batch.outcome is not BatchOutcome.DELIVERED and batch.after_snapshot_id == batch.up_to_snapshot_id:
            after_id = end.snapshot_id
        up_to_id, snapshot = end.snapshot_id, end.snapshot
        found.append(replace(batch, after_snapshot_id=after_id, up_to_snapshot_id=up_to_id, snapshot=snapshot))
        before = batch.up_to_snapshot_id, end.snapshot_id
    return session, found


def committed_batches(session: PipelineSession) -> list[CommitRecord]:
    """The commit records of all batches, by number.

    Raises:
        TerminalError: a record is gone.
    """
    checkpoint = session.checkpoint
    cursor = checkpoint.cursor()
    numbers = range(0 if cursor is None else cursor.batch_number + 1)
    commits = [(number, checkpoint.committed(number)) for number in numbers]
    for number, commit in commits:
        if commit is None:
            raise TerminalError(
                f"the commit record of batch {number} is gone from the checkpoint {checkpoint.url}, though later "
                "batches are committed: restore it",
                batch_number=number,
            )
    return [commit for _, commit in commits if commit is not None]
