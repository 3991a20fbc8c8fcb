"""Mutations of steps: which commits are one, what they carry, which files and schema they have."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["STEPS"]

STEPS: Final = (
    Mutation(
        name="a walk of ancestors goes round in a circle",
        path="iceberg/table.py",
        before=" and snapshot_id not in seen:",
        after=":",
        suite=("tests/iceberg/history/test_history.py",),
    ),
    Mutation(
        name="a change ordinal is one too great",
        path="changes/columns.py",
        before="pa.array(change_ordinals, pa.int32()),",
        after="pa.array(change_ordinals + 1, pa.int32()),",
    ),
    Mutation(
        name="a compaction is a step",
        path="iceberg/steps/steps.py",
        before="return [snapshot for snapshot in group if not is_replace(snapshot)]",
        after="return list(group)",
    ),
    Mutation(
        name="the snapshots of one commit are steps of their own",
        path="iceberg/steps/commit_groups.py",
        before="if previous is not None and previous.is_exact and previous == current:",
        after="if False:",
    ),
    Mutation(
        name="snapshots of which nobody knows how they were committed are one step",
        path="iceberg/steps/commit_groups.py",
        before="if previous is not None and previous.is_exact and previous == current:",
        after="if previous is not None and previous == current:",
        suite=("tests/iceberg/steps/test_commit_groups.py",),
    ),
    Mutation(
        name="a step has the time of the first of its snapshots",
        path="iceberg/steps/steps.py",
        before="commit_timestamp_us=1000 * last.timestamp_ms,",
        after="commit_timestamp_us=1000 * changing[0].timestamp_ms,",
    ),
    Mutation(
        name="a step has the id of the first of its snapshots",
        path="iceberg/steps/steps.py",
        before="commit_snapshot_id=last.snapshot_id,",
        after="commit_snapshot_id=changing[0].snapshot_id,",
    ),
    Mutation(
        name="a file that one snapshot of a commit adds and another removes is removed",
        path="iceberg/scan/changed_files.py",
        before="FileTerm(entry, earlier.weight + term.weight, term.delete_files)",
        after="FileTerm(entry, term.weight, term.delete_files)",
    ),
    Mutation(
        name="a file that leaves without a DELETED entry stays",
        path="iceberg/scan/changed_files.py",
        before="dropped = chain.from_iterable(left.values())",
        after="dropped = ()",
        suite=("tests/iceberg/scan/test_contradicting_manifests.py",),
    ),
    Mutation(
        name="a manifest that a state lists twice counts once",
        path="iceberg/scan/live_deletes.py",
        before="""\
        left[key] -= 1
        if left[key] < 0:""",
        after="        if left[key] <= 0:",
        suite=("tests/iceberg/scan/test_contradicting_manifests.py",),
    ),
    Mutation(
        name="a snapshot with the id of the cursor's is the cursor's",
        path="iceberg/recorded_snapshot.py",
        before="(self.sequence_number, self.timestamp_ms) == (snapshot.sequence_number or 0, snapshot.timestamp_ms)",
        after="True",
        suite=("tests/batch/open/test_reused_ids.py",),
    ),
    Mutation(
        name="a snapshot that was taken back has expired although its files are there",
        path="iceberg/history/loaded_table.py",
        before="is_there = self.io.new_input(path).exists()",
        after="is_there = False",
        suite=("tests/batch/open/test_reused_ids.py",),
    ),
    Mutation(
        name="a rollback begins at the snapshot that it goes back to",
        path="iceberg/history/rollback.py",
        before="left_snapshot_id=after_snapshot_id,",
        after="left_snapshot_id=move.snapshot_id,",
    ),
    Mutation(
        name="a rollback over snapshots that expired is a gap",
        path="iceberg/history/rollback.py",
        before="if landing is None or not moves:",
        after="if True:",
        suite=("tests/iceberg/steps/test_rollback_steps.py",),
    ),
    Mutation(
        name="commits that expired count as a rollback",
        path="iceberg/history/rollback.py",
        before="(reached.sequence_number or 0) < (left.sequence_number or 0)",
        after="True",
        suite=("tests/iceberg/steps/test_rollback_steps.py",),
    ),
    Mutation(
        name="the commits since a rollback are left out",
        path="iceberg/history/passage.py",
        before="commits = commits_after(lineage, before.snapshot_id) or ()",
        after="commits = ()",
    ),
    Mutation(
        name="the end of a range on a branch is the head of main",
        path="iceberg/history/passage.py",
        before="head = self.table.history.head(self.branch)",
        after="head = self.table.history.head()",
        suite=("tests/spark/test_commit_groups.py::test_commits_on_two_branches_at_once_keep_their_own_steps",),
    ),
    Mutation(
        name="rows have the schema of the table as it is now",
        path="batch/plan/make_plan.py",
        before="TableSchema.at(table.metadata, spec.up_to_snapshot_id",
        after="TableSchema.at(table.metadata, None",
    ),
    Mutation(
        name="a column that is required again after a rollback refuses the nulls of before",
        path="iceberg/schemas/covering_schema.py",
        before='"required": field.required and field.field_id not in self.optional,',
        after='"required": field.required,',
        suite=("tests/iceberg/schemas/test_table_schema.py",),
    ),
    Mutation(
        name="a required column that is there again after a rollback refuses the rows without it",
        path="iceberg/schemas/covering_schema.py",
        before="for field_id in index_by_id(schema).keys() - each.keys()}",
        after="for field_id in ()}",
        suite=("tests/iceberg/schemas/test_table_schema.py",),
    ),
    Mutation(
        name="rows that a replaced table had by default are compared with those of another default",
        path="iceberg/schemas/table_schema.py",
        before="elif not _have_equal_defaults(was, now):",
        after="elif False:",
        suite=("tests/iceberg/schemas/test_comparable_states.py",),
    ),
    Mutation(
        name="columns are matched by name",
        path="iceberg/projection/projection.py",
        before="""\
        by_id = {column.field_id: column for column in columns}
        return tuple(self._field(by_id.get(field.field_id),""",
        after="""\
        by_name = {column.name: column for column in columns}
        return tuple(self._field(by_name.get(field.name),""",
    ),
    Mutation(
        name="a column that was dropped lends its values to a new one of its name",
        path="iceberg/projection/projection.py",
        before="self._field(by_id.get(field.field_id), field,",
        after="self._field(by_id.get(field.field_id, {each.name: each for each in columns}.get(field.name)), field,",
        suite=("tests/spark/test_schema_evolution.py",),
    ),
    Mutation(
        name="a promoted column keeps the type of the file",
        path="iceberg/projection/promote.py",
        before="return Cast(target) if source.bit_width <= target.bit_width else None",
        after="return KEEP if source.bit_width <= target.bit_width else None",
    ),
    Mutation(
        name="a column that a file lacks is null where it has a default",
        path="iceberg/projection/projection.py",
        before="        return initial_value(field)",
        after="        return pa.nulls(1, arrow_type(field.field_type))[0]",
        suite=("tests/spark/test_schema_evolution.py::test_initial_defaults_of_columns_added_later",),
    ),
    Mutation(
        name="a column that a file lacks is null where its partition has it",
        path="iceberg/projection/projection.py",
        before="if str(field.field_id) in self._constants and field.field_type.is_primitive:",
        after="if False:",
        suite=("tests/iceberg/projection/test_projection.py",),
    ),
    Mutation(
        name="a load goes on after the file that comes next",
        path="iceberg/steps/load_parts.py",
        before="rest = replace(delivered, first_file=delivered.stop_file,",
        after="rest = replace(delivered, first_file=min(delivered.stop_file + 1, delivered.num_files - 1),",
        suite=("tests/batch/open/test_load_parts.py",),
    ),
    Mutation(
        name="a load ends with its first part",
        path="checkpoint/records.py",
        before="load_part=None if part is None or part.is_last else part,",
        after="load_part=None,",
        suite=("tests/batch/open/test_load_parts.py",),
    ),
    Mutation(
        name="a branch without a snapshot is work again and again",
        path="batch/open/find_work.py",
        before="    elif is_emptied(history, session.pipeline, cursor):",
        after="    elif False:",
        suite=("tests/batch/open/test_moved_branch.py", "tests/batch/open/test_next_batch.py"),
    ),
    Mutation(
        name="a branch without a snapshot fails a run that only has to wait",
        path="batch/open/next_range.py",
        before="        if is_emptied(table.history, pipeline, cursor):",
        after="        if False:",
        suite=("tests/batch/open/test_moved_branch.py", "tests/batch/open/test_next_batch.py"),
    ),
)
