"""Mutations of sweep and pins: each deletes what somebody needs, or keeps what nobody does."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["UPKEEP"]

SURVEY: Final = ("tests/batch/sweep/test_survey.py",)
SINKS: Final = ("tests/batch/sweep/test_sink_files.py",)
STAGED: Final = ("tests/batch/sweep/test_staged_files.py",)
PINS: Final = ("tests/batch/open/test_pin.py", "tests/iceberg/history/test_pins.py")
BACKFILLS: Final = ("tests/batch/operations/test_abandoned_backfills.py",)
GAPS: Final = ("tests/batch/open/test_pins_before_a_gap.py",)

UPKEEP: Final = (
    Mutation(
        name="a sweep takes the files of an open batch",
        path="batch/sweep/batch_states.py",
        before="return BatchState.OPEN if self.is_open and",
        after="return BatchState.OPEN if False and",
        suite=SURVEY,
    ),
    Mutation(
        name="a sweep leaves what died in the middle of a record of a checkpoint",
        path="batch/sweep/survey.py",
        before="    return look.survey(places=(storage, *checkpoints, ",
        after="    return look.survey(places=(storage, ",
        suite=SURVEY,
    ),
    Mutation(
        name="a sweep looks for trials only where a pipeline has begun",
        path="batch/sweep/probe_leftovers.py",
        before="for pipeline in sorted(storage.folders(room)):",
        after="for pipeline in sorted(storage.folders(room))[:0]:",
        suite=SURVEY,
    ),
    Mutation(
        name="a sweep takes young files of a number above the latest",
        path="batch/sweep/shuffle_folders.py",
        before="return stored.modified < self.cutoff",
        after="return True",
        suite=SURVEY,
    ),
    Mutation(
        name="a sweep does not ask again whether a batch was opened since",
        path="batch/sweep/leftover.py",
        before="if self.is_opened is not None and self.is_opened():",
        after="if False:",
        suite=SURVEY,
    ),
    Mutation(
        name="a folder is swept by a checkpoint with another id",
        path="batch/sweep/found_checkpoint.py",
        before="if _id_of(candidate.checkpoint) == folder.checkpoint_id:",
        after="if _id_of(candidate.checkpoint) is not None:",
        suite=SURVEY,
    ),
    Mutation(
        name="the staged backfill of a new start goes with the earlier start",
        path="batch/sweep/forgotten_files.py",
        before="return claim is not None and self._places.has_backfill(backfill_id, claim.owner, urls())",
        after="return False",
        suite=STAGED,
    ),
    Mutation(
        name="an ended backfill of a checkpoint that was moved is taken for gone",
        path="batch/sweep/found_checkpoint.py",
        before="    if marker.backfill_id is not None:\n        for pipeline_url in places.urls():\n",
        after="    if marker.backfill_id is not None:\n        for pipeline_url in ():\n",
        suite=STAGED,
    ),
    Mutation(
        name="the marker of a checkpoint that was moved keeps the old place",
        path="batch/context/folder_marker.py",
        before="is_marked = store.get(MARKER) == data",
        after="is_marked = bool(store.get(MARKER))",
        suite=("tests/batch/context/test_folder_marker.py",),
    ),
    Mutation(
        name="a sink that another checkpoint claims is swept",
        path="batch/sweep/sink_files.py",
        before="claim.owner == owner.checkpoint_id",
        after="True",
        suite=SINKS,
    ),
    Mutation(
        name="files of an open batch at the sink are taken for strays",
        path="batch/sweep/sink_files.py",
        before="if state is BatchState.OPEN or has_manifest or not old:",
        after="if has_manifest or not old:",
        suite=SINKS,
    ),
    Mutation(
        name="a batch that ended after its files were listed has no manifest",
        path="batch/sweep/sink_files.py",
        before="has_manifest = sink.whole(number) is not None",
        after="has_manifest = False",
        suite=STAGED,
    ),
    Mutation(
        name="files of a batch that was opened and has ended since the survey are of no batch",
        path="batch/sweep/batch_states.py",
        before="return type(self).of(self.checkpoint).state(batch_number) is not BatchState.UNKNOWN",
        after="return type(self).of(self.checkpoint).state(batch_number) is BatchState.OPEN",
        suite=STAGED,
    ),
    Mutation(
        name="pins have no tags",
        path="iceberg/history/pins.py",
        before="for name, snapshot_id in moves.new_tags.items():",
        after="for name, snapshot_id in ():",
        suite=PINS,
    ),
    Mutation(
        name="pins hold nothing behind the nearest ancestor of a head and of a state that was left",
        path="iceberg/history/needed_snapshots.py",
        before="ids[: max([last, *landed]) + 1]",
        after="ids[: last + 1]",
        suite=("tests/iceberg/history/test_pins.py",),
    ),
    Mutation(
        name="the snapshot that a pipeline goes on from is not pinned",
        path="iceberg/history/needed_snapshots.py",
        before="return (*self.lineage, *self.further)",
        after="return (*self.lineage[:-1], *self.further)",
        suite=PINS,
    ),
    Mutation(
        name="pins expire by the age of branches",
        path="iceberg/history/pins.py",
        before="            max_ref_age_ms=EVER_MS,\n            min_snapshots_to_keep",
        after="            max_ref_age_ms=1,\n            min_snapshots_to_keep",
        suite=PINS,
    ),
    Mutation(
        name="each run commits pins to the table",
        path="iceberg/history/pins.py",
        before="if has_branch and not new_tags:",
        after="if False:",
        suite=PINS,
    ),
    Mutation(
        name="what is pinned before a gap is not delivered",
        path="batch/open/passage_after_cursor.py",
        before="passage = _up_to_pins(table, pipeline, cursor, pins)",
        after="passage = None",
        suite=GAPS,
    ),
    Mutation(
        name="pins before the cursor lead back to the past",
        path="iceberg/history/pins.py",
        before="return end_id if is_ahead else None",
        after="return end_id",
        suite=("tests/iceberg/history/test_pins.py",),
    ),
    Mutation(
        name="pins move on after a gap",
        path="iceberg/history/needed_snapshots.py",
        before="if pinned_end_id is not None:",
        after="if False:",
        suite=GAPS,
    ),
    Mutation(
        name="an abandon of a backfill that was killed is not completed by a run",
        path="batch/plan/open_and_plan.py",
        before="if complete_unfinished_end(backfill, backfill.checkpoint.look()) is not None:",
        after="if False:",
        suite=BACKFILLS,
    ),
    Mutation(
        name="a sweep forgets the way to a backfill that was started again",
        path="batch/sweep/batch_states.py",
        before="return self.latest is not None and not self.is_open",
        after="return self.latest is not None",
        suite=BACKFILLS,
    ),
    Mutation(
        name="a sweep deletes the marker of a backfill that was started again meanwhile",
        path="batch/sweep/shuffle_folders.py",
        before="                is_opened=states.is_open_now,\n",
        after="",
        suite=BACKFILLS,
    ),
    Mutation(
        name="a sweep puts no marker back that a backfill needs since the last question",
        path="batch/sweep/leftover.py",
        before="                self.store.put(key, content)\n",
        after="                pass\n",
        suite=BACKFILLS,
    ),
    Mutation(
        name="a backfill that is started again trusts in the marker that it found",
        path="batch/open/claim_batch.py",
        before="if batch.session.backfill_id is not None and recorded",
        after="if False and recorded",
        suite=BACKFILLS,
    ),
)
