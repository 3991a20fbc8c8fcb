"""Mutations of deliveries to any sink: records and beginnings; and of verify."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["DELIVERIES"]

_DELIVER: Final = ("tests/batch/deliver",)
_SELECTED: Final = ("tests/batch/deliver/test_selected_columns.py",)
_SHOWN_ENDS: Final = ("tests/batch/ends/test_shown_ends.py",)
_VERIFY: Final = ("tests/batch/verify/test_verify_delivery.py",)
_VERIFY_LOGS: Final = ("tests/batch/verify/test_verified_logs.py",)
_VERIFY_INCOMPLETE_LOGS: Final = ("tests/batch/verify/test_incomplete_logs.py",)
_VERIFY_BESIDE_RUNS: Final = ("tests/batch/verify/test_verify_beside_runs.py",)

DELIVERIES: Final = (
    Mutation(
        name="executors that deliver parts are given what opens the catalog",
        path="batch/deliver/deliver_batch.py",
        before="reference=TaskReference.of(reference, running.plan),",
        after="reference=TaskReference(batch=reference, plan=running.plan),",
        suite=("tests/batch/deliver/test_deliver.py",),
    ),
    Mutation(
        name="sinks show identifier columns that are not selected",
        path="sinks/batch_to_deliver.py",
        before="shown = columns if self.selected is None else",
        after="shown = columns if True else",
        suite=_SELECTED,
    ),
    Mutation(
        name="a struct is shown with all that was staged of it",
        path="sinks/batch_to_deliver.py",
        before="return shown if self._shows_whole_columns else shown.cast(self.shown_schema)",
        after="return shown",
        suite=_SELECTED,
    ),
    Mutation(
        name="identifier columns that are not selected are not staged",
        path="batch/open/identity_policy.py",
        before="if not has_columns(selected, [path])",
        after="if False",
        suite=_SELECTED,
    ),
    Mutation(
        name="parts whose delivery is recorded are delivered again",
        path="batch/deliver/deliver_batch.py",
        before="missing = [number for number, delivery in zip(self.numbers, found, strict=True) if delivery is None]",
        after="missing = list(self.numbers)",
        further=(
            Edit(
                path="batch/deliver/deliver_part.py",
                before="is_adopted = records.part(number) is not None",
                after="is_adopted = False",
            ),
        ),
        suite=_DELIVER,
    ),
    Mutation(
        name="parts with dead letters stay as an earlier try delivered them",
        path="batch/deliver/deliver_batch.py",
        before="            if not again:\n                raise\n",
        after="            raise\n",
        suite=("tests/batch/deliver/test_letters_over_the_limit.py",),
    ),
    Mutation(
        name="parts that the sink lost before its manifest stay as they were recorded",
        path="batch/deliver/deliver_batch.py",
        before="            again = list(damage.numbers)\n",
        after="            again = []\n",
        suite=("tests/batch/deliver/test_lost_parts.py",),
    ),
    Mutation(
        name="a batch that is recorded as visible is delivered again",
        path="batch/deliver/deliver_batch.py",
        before="        if records.batch() is not None:\n            return\n",
        after="",
        suite=_DELIVER,
    ),
    Mutation(
        name="a retry delivers by the facts of its own beginning",
        path="batch/deliver/delivery_records.py",
        before="            return facts\n        return load_batch_document(",
        after="            return facts\n        return facts or load_batch_document(",
        suite=("tests/batch/deliver/test_delivery_records.py",),
    ),
    Mutation(
        name="verify does not look for keys that a sink has in excess",
        path="audit/keyed_rows.py",
        before="(KeyDifference.EXTRA, live.filter(pc.invert(is_known))),",
        after="(KeyDifference.EXTRA, live.slice(0, 0)),",
        suite=_VERIFY,
    ),
    Mutation(
        name="verify names the identity as at the first batch",
        path="batch/verify/verify_delivery.py",
        before="self._identity = identity.named_by(schema.columns.find_column_name)",
        after="self._identity = identity",
        suite=("tests/batch/verify/test_changed_columns.py",),
    ),
    Mutation(
        name="verify compares keys, not rows",
        path="audit/keyed_rows.py",
        before="is_right = pc.is_in(_pairs(live), _pairs(wanted))",
        after="is_right = is_known",
        suite=_VERIFY,
    ),
    Mutation(
        name="verify takes the first change of a key in a log for the last",
        path="audit/keyed_rows.py",
        before='aggregate([("place", "max")])[_LAST]',
        after='aggregate([("place", "min")])["place_min"]',
        suite=_VERIFY_LOGS,
    ),
    Mutation(
        name="verify reads all changes of a small table at once",
        path="batch/verify/verify_delivery.py",
        before="return rows if self._sink.keyed else max(",
        after="return rows if True else max(",
        suite=_VERIFY_LOGS,
    ),
    Mutation(
        name="verify expects rows before updates of a log that shows none",
        path="batch/verify/verify_delivery.py",
        before="return self._sink.shows_removed_rows and self._session",
        after="return self._session",
        suite=_VERIFY_LOGS,
    ),
    Mutation(
        name="verify adds up the rows of a log that does not show which are gone",
        path="batch/verify/verify_delivery.py",
        before="if retention.lost or self._hides_removed_rows or not",
        after="if retention.lost or not",
        suite=_VERIFY_LOGS,
    ),
    Mutation(
        name="a sink is taken back for a load that it had a part of",
        path="batch/open/claim_batch.py",
        before="return batch.is_resumed and batch.session",
        after="return False and batch.session",
        suite=("tests/batch/deliver/test_taken_over.py",),
    ),
    Mutation(
        name="a pipeline that goes on where others ended takes the sink of another one over",
        path="batch/open/claim_batch.py",
        before="(not batch.offset.begins_anew or _is_begun(batch))",
        after="_is_begun(batch)",
        suite=("tests/batch/deliver/test_taken_over.py",),
    ),
    Mutation(
        name="a delivery that began before its sink went away is said to be late",
        path="batch/deliver/deliver_batch.py",
        before="        if all(begun[each] == now[each]",
        after="        if True or all(begun[each] == now[each]",
        suite=("tests/batch/deliver/test_taken_over.py",),
    ),
    Mutation(
        name="a batch goes on at another sink than its first parts went to",
        path="batch/deliver/deliver_batch.py",
        before="if None not in (before, found) and before != found:",
        after="if False:",
        suite=("tests/batch/deliver/test_other_destinations.py",),
    ),
    Mutation(
        name="a batch that an earlier release began is taken for one that began elsewhere",
        path="batch/deliver/deliver_batch.py",
        before="if None not in (before, found) and before != found:",
        after="if before != found:",
        suite=("tests/batch/deliver/test_other_destinations.py",),
    ),
    Mutation(
        name="verify counts a second row of a key as right",
        path="audit/keyed_rows.py",
        before="doubled += 0 if is_log else len(there) - len(newest)",
        after="doubled += 0",
        suite=("tests/audit/test_keyed_rows.py",),
    ),
    Mutation(
        name="verify excuses every change that a log lacks",
        path="batch/verify/verify_delivery.py",
        before="        if self._may_lack_changes:\n",
        after="        if True:\n",
        suite=_VERIFY_INCOMPLETE_LOGS,
    ),
    Mutation(
        name="verify excuses keys that a log without retention lacks",
        path="batch/verify/verify_delivery.py",
        before="(not first.lost or not self._may_lack_oldest)",
        after="not first.lost",
        suite=_VERIFY_INCOMPLETE_LOGS,
    ),
    Mutation(
        name="verify misses changes from before a load that began meanwhile",
        path="batch/verify/verify_delivery.py",
        before=" or self._has_begun_anew()\n",
        after="\n",
        suite=_VERIFY_INCOMPLETE_LOGS,
    ),
    Mutation(
        name="verify misses changes that are dead letters",
        path="batch/verify/verify_delivery.py",
        before="delivery.dead_letters * _CHANGES_OF_A_LETTER",
        after="0",
        suite=_VERIFY_INCOMPLETE_LOGS,
    ),
    Mutation(
        name="verify calls a log exact that has no row to compare",
        path="cli/verify.py",
        before="if found.rows or not found.uncompared",
        after="if True",
        suite=_VERIFY_INCOMPLETE_LOGS,
    ),
    Mutation(
        name="a batch is read by a schema with columns that it does not have",
        path="batch/verify/written_columns.py",
        before="return any(name.rpartition",
        after="return False and any(name.rpartition",
        suite=("tests/batch/verify/test_column_names.py",),
    ),
    Mutation(
        name="rows of other keys of files are taken for those of a key",
        path="batch/verify/written_columns.py",
        before="yield present if keys is None or sink.finds_keys else",
        after="yield present if True else",
        suite=("tests/batch/verify/test_nested_identity.py",),
    ),
    Mutation(
        name="verify believes what it read while batches went on",
        path="batch/verify/verify_delivery.py",
        before="        if not found.counts or not self._has_moved():\n            return found\n",
        after="        if True:\n            return found\n",
        suite=_VERIFY_BESIDE_RUNS,
    ),
    Mutation(
        name="the first commits of a table that was empty count as another load",
        path="checkpoint/records.py",
        before="self.after_snapshot_id is None and (is_beginning or self.spec.is_reload)",
        after="self.after_snapshot_id is None",
        suite=("tests/batch/deliver/test_beginnings.py",),
    ),
    Mutation(
        name="a reload replaces nothing at the sink",
        path="checkpoint/records.py",
        before="self.after_snapshot_id is None and (is_beginning or self.spec.is_reload)",
        after="self.after_snapshot_id is None and is_beginning",
        suite=("tests/batch/deliver/test_beginnings.py",),
    ),
    Mutation(
        name="a reset back into a folder leaves numbers without a manifest",
        path="batch/ends/end_batch.py",
        before="    if end.outcome is BatchOutcome.RESET:\n",
        after="    if False:\n",
        suite=_SHOWN_ENDS,
    ),
    Mutation(
        name="a batch that was delivered elsewhere counts as delivered by its empty manifest",
        path="batch/operations/kept_changes.py",
        before="if manifest is not None and manifest.batch.steps == commit.steps:",
        after="if manifest is not None:",
        suite=_SHOWN_ENDS,
    ),
    Mutation(
        name="manifests of batches from before a reset cannot be written",
        path="batch/operations/kept_changes.py",
        before="if self.counted_folder is not None and self._is_before_reset(number):",
        after="if False:",
        suite=_SHOWN_ENDS,
    ),
)
