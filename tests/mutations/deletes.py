"""Mutations of delete files: which of them are in force, what they reach, what they delete."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["DELETES"]

DELETES: Final = (
    Mutation(
        name="a deletion vector deletes nothing",
        path="iceberg/deletes/deleted_positions.py",
        before="positions = self._vectors[delete_id]",
        after="positions = BitMap64()",
    ),
    Mutation(
        name="what was deleted from a file before is deleted again with what is deleted now",
        path="iceberg/scan/delete_targets.py",
        before="changes = {reach: (earlier, later) for reach",
        after="changes = {reach: (DeleteNumbers(), later) for reach",
    ),
    Mutation(
        name="what was deleted from a file before is deleted again with the file",
        path="iceberg/scan/changed_files.py",
        before="single.append(FileTerm(entry, -1, earlier))",
        after="single.append(FileTerm(entry, -1, DeleteNumbers()))",
    ),
    Mutation(
        name="a file brings the rows that its own commit deletes from it",
        path="iceberg/scan/changed_files.py",
        before="single.append(FileTerm(entry, 1, later))",
        after="single.append(FileTerm(entry, 1, DeleteNumbers()))",
    ),
    Mutation(
        name="rows that a commit adds are taken back with what its delete files delete from older rows",
        path="iceberg/scan/delete_targets.py",
        before="if snapshot_id not in self.added_by:",
        after="if True:",
        suite=("tests/iceberg/scan/test_changed_delete_files.py",),
    ),
    Mutation(
        name="a file that two manifests list has its terms twice where a delete file reaches it",
        path="iceberg/scan/changed_files.py",
        before="if len(found) == 1 and not _is_any_listed_twice(found[0]):",
        after="if len(found) == 1:",
        suite=("tests/iceberg/scan/test_changed_delete_files.py",),
    ),
    Mutation(
        name="a file cancels itself in a partition that gives it other values",
        path="iceberg/scan/changed_files.py",
        before="key = term.entry.data_file.identity, term.delete_files",
        after="key = term.entry.data_file.path, term.delete_files",
        suite=("tests/iceberg/scan/test_changed_files.py",),
    ),
    Mutation(
        name="a file that a load reads once counts twice if a delete file reaches one of its two listings",
        path="iceberg/scan/changed_files.py",
        before="by_file.setdefault(term.entry.data_file.identity, [])",
        after="by_file.setdefault(f'{term.entry.data_file.path} {term.delete_files}', [])",
        suite=("tests/iceberg/scan/test_changed_files.py",),
    ),
    Mutation(
        name="a file of two partitions is read with the values of one of them",
        path="iceberg/scan/terms_of_files.py",
        before="identity = term.entry.data_file.identity",
        after="identity = term.entry.data_file.path",
        suite=("tests/iceberg/scan/test_terms_of_files.py",),
    ),
    Mutation(
        name="rows of a file in two partitions have the row ids of one of them",
        path="iceberg/scan/scan_tasks.py",
        before=".get(file.identity)",
        after=".get(file.path)",
        suite=("tests/iceberg/scan/test_step_row_ids.py",),
    ),
    Mutation(
        name="a file that is read with the values of two partitions counts once",
        path="batch/rows/file_effects.py",
        before="return self.data_file.identity, self.data_file.first_row_id",
        after="return self.data_file.path, self.data_file.first_row_id",
        suite=("tests/batch/map/test_read_tally.py",),
    ),
    Mutation(
        name="deletes of a partition reach the same file in another partition",
        path="iceberg/scan/delete_file_index.py",
        before="data.data_file.path, data.data_file.sequence_number, data.partition",
        after="data.data_file.path, data.data_file.sequence_number, (0, ())",
        suite=("tests/iceberg/scan/test_delete_file_index.py",),
    ),
    Mutation(
        name="a delete file that a commit takes away was not in force before it",
        path="iceberg/scan/live_deletes.py",
        before="Around(removed | (after - added), after)",
        after="Around(after - added, after)",
    ),
    Mutation(
        name="a delete file that was taken away stays in force",
        path="iceberg/scan/live_deletes.py",
        before="self._of(entry for entry in entries if entry.status is not EntryStatus.DELETED)",
        after="self._of(entries)",
        suite=("tests/iceberg/scan/test_changed_delete_files.py",),
    ),
    Mutation(
        name="deletes in force are forgotten when a table is loaded",
        path="iceberg/scan/changed_files.py",
        before="FileTerm(entry, 1, *in_force(deletes.index.reach(entry))) for entry",
        after="FileTerm(entry, 1, DeleteNumbers()) for entry",
    ),
    Mutation(
        name="a move of a branch shows no deletes on files that both states list in one manifest",
        path="iceberg/scan/data_manifests.py",
        before="deletes_differ = len({self._deletes.live[each] for each in ends}) > 1",
        after="deletes_differ = False",
    ),
    Mutation(
        name="an equality delete reaches rows of its own commit",
        path="iceberg/scan/delete_file_index.py",
        before="data_file.sequence_number < deletes.sequence_number",
        after="data_file.sequence_number <= deletes.sequence_number",
    ),
    Mutation(
        name="a position delete does not reach rows of its own commit",
        path="iceberg/scan/delete_file_index.py",
        before="if data_file.sequence_number > deletes.sequence_number:",
        after="if data_file.sequence_number >= deletes.sequence_number:",
    ),
    Mutation(
        name="deletes reach all partitions of their spec",
        path="iceberg/manifests/manifest_entries.py",
        before="for field_id, _, value in raw.partition}",
        after="for field_id, _, value in ()}",
    ),
    Mutation(
        name="a day has the type that its manifest gives it",
        path="iceberg/manifests/manifest_entries.py",
        before="DateType() if field_id in dates else kind",
        after="kind",
        suite=("tests/iceberg/manifests/test_manifest_entries.py",),
    ),
    Mutation(
        name="a global equality delete counts as one of a partition",
        path="iceberg/scan/delete_file_index.py",
        before="is_in_scope = entry.is_unpartitioned or entry.partition == data.partition",
        after="is_in_scope = entry.partition == data.partition",
    ),
    Mutation(
        name="a position delete file does not reach the first of the files that it names",
        path="iceberg/scan/delete_file_index.py",
        before="if lower is not None and path < lower:",
        after="if lower is not None and path <= lower:",
    ),
    Mutation(
        name="a deletion vector gives way to older position delete files",
        path="iceberg/scan/delete_file_index.py",
        before="""\
        if found.intersect(self._vectors):
            found -= self._position_delete_files""",
        after="""\
        if found.intersect(self._position_delete_files):
            found -= self._vectors""",
        suite=("tests/iceberg/scan/test_delete_file_index.py",),
    ),
    Mutation(
        name="the delete files in force at one state count in the states that are compared with it",
        path="iceberg/scan/delete_file_index.py",
        before="self._in_force(reach, state) for state in states)",
        after="self._in_force(reach, states[0]) for _ in states)",
        suite=("tests/iceberg/scan/test_delete_file_index.py",),
    ),
    Mutation(
        name="rows that a rollback brings back stay deleted in later steps",
        path="batch/rows/term_effects.py",
        before="if is_shrinking:",
        after="if False:",
        suite=("tests/batch/rows/test_term_effects.py",),
    ),
    Mutation(
        name="terms of equal deletes cancel whatever their weights",
        path="batch/rows/term_effects.py",
        before="weights[place] = weights.get(place, 0) + weight",
        after="weights[place] = 0 if place in weights else weight",
        suite=("tests/batch/rows/test_term_effects.py",),
    ),
    Mutation(
        name="rows of a small data file are taken from the first file that they are gathered with",
        path="batch/map/combined_reads.py",
        before="self._picks.append(picked + self._num_rows)",
        after="self._picks.append(picked)",
        suite=("tests/batch/map/test_combined_reads.py",),
    ),
    Mutation(
        name="gathered rows that are not enough for a batch are lost",
        path="batch/map/carryover.py",
        before="        yield from combined.taken()\n        if waiting:",
        after="        if waiting:",
        suite=("tests/batch/map/test_carryover.py",),
    ),
    Mutation(
        name="data files whose terms differ in their delete files alone get the same ones",
        path="batch/plan/task_document.py",
        before="keys = [id(task.terms) for task in tasks]",
        after="keys = [tasks[0].terms[0].change_ordinal for _ in tasks]",
        suite=("tests/batch/plan/test_task_document.py",),
    ),
    Mutation(
        name="an equality delete does not reach files whose least key is its greatest",
        path="iceberg/scan/key_bounds.py",
        before="bool(one.upper < other.lower)",
        after="bool(one.upper <= other.lower)",
    ),
    Mutation(
        name="bounds that a replaced table wrote are decoded in the type that the column has now",
        path="iceberg/schemas/covering_schema.py",
        before="return widest if all(each == widest or _is_promoted(each, widest) for each in types) else None",
        after="return widest",
        suite=("tests/iceberg/scan/test_key_bounds.py", "tests/iceberg/scan/test_manifest_pruning.py"),
    ),
    Mutation(
        name="keys of deletes are read in the type that the column has in the table of now",
        path="iceberg/schemas/equality_schema.py",
        before="before = schemas_before(metadata, snapshot_ids)",
        after="before = schemas_before(metadata, [])",
        suite=("tests/iceberg/schemas/test_equality_schema.py",),
    ),
    Mutation(
        name="the deletion vectors of one Puffin file are taken for one",
        path="iceberg/manifests/manifest_entries.py",
        before="return self.delete_file.path, self.delete_file.content_offset",
        after="return self.delete_file.path, None",
    ),
    Mutation(
        name="an equality delete with a null in its key deletes nothing",
        path="iceberg/deletes/equality_deletes.py",
        before="yield first, key_hashes(batch)",
        after="yield first, key_hashes(batch.drop_null() if isinstance(file, DeleteFile) else batch)",
    ),
    Mutation(
        name="an equality delete compares the first of its columns alone",
        path="iceberg/deletes/equality_deletes.py",
        before="for column in keys.columns])",
        after="for column in keys.columns[:1]])",
    ),
    Mutation(
        name="0.0 as the key of an equality delete deletes -0.0",
        path="iceberg/deletes/equality_deletes.py",
        before="_by_bits(column) if _has_floats(column.type) else column for",
        after="column for",
        suite=("tests/iceberg/deletes/test_equality_keys.py",),
    ),
    Mutation(
        name="an equality delete finds rows at their place in the batch, not in the file",
        path="iceberg/deletes/equality_deletes.py",
        before="_add_positions(found, asked, rows + first, numbers)",
        after="_add_positions(found, asked, rows, numbers)",
        suite=("tests/iceberg/deletes/test_equality_deletes.py",),
    ),
    Mutation(
        name="a delete of partition -0.0 reaches partition 0.0",
        path="iceberg/data_file.py",
        before='return value if value or math.copysign(1.0, value) > 0 else "-0.0"',
        after="return value",
        suite=("tests/iceberg/scan/test_delete_file_index.py",),
    ),
)
