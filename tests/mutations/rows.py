"""Mutations of rows: which are read, which are equal, what is left of them, how they are delivered."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["ROWS"]

ROWS: Final = (
    Mutation(
        name="rows are looked for one position too far",
        path="batch/rows/row_reader.py",
        before="needed = touched.among(positions)",
        after="needed = touched.among(positions + 1)",
    ),
    Mutation(
        name="rows that are read again are looked for by their number among the hashed_rows",
        path="batch/map/hashed_rows.py",
        before="wanted if self.places is None else self.places[wanted]",
        after="wanted",
    ),
    Mutation(
        name="rows that one step touches are forgotten where another touches all but them",
        path="batch/rows/row_set.py",
        before="return RowSet(positions=_difference(one, two), is_all_but=True)",
        after="return RowSet(positions=one, is_all_but=True)",
    ),
    Mutation(
        name="all rows but some are just those",
        path="batch/rows/row_set.py",
        before="return np.flatnonzero(is_listed != self.is_all_but)",
        after="return np.flatnonzero(is_listed)",
    ),
    Mutation(
        name="the weight of a file is lost where delete files are in force on it",
        path="batch/rows/file_effects.py",
        before="Effect(change_ordinal=ordinal, weight=everywhere - less, rows=RowSet(positions=rows))",
        after="Effect(change_ordinal=ordinal, weight=-less, rows=RowSet(positions=rows))",
    ),
    Mutation(
        name="a step pairs updates by row ids that one of its files does not have",
        path="iceberg/scan/step_row_ids.py",
        before="return found if all(term.entry.data_file.path in found for term in terms) else {}",
        after="return found",
        suite=("tests/iceberg/scan/test_step_row_ids.py",),
    ),
    Mutation(
        name="a file has the row ids of its first step in all of them",
        path="iceberg/scan/scan_tasks.py",
        before="by_row_id.setdefault(own.get(term.change_ordinal, first), []).append(term)",
        after="by_row_id.setdefault(first, []).append(term)",
        suite=("tests/iceberg/scan/test_step_row_ids.py",),
    ),
    Mutation(
        name="rows with equal row ids are copies, whatever their sequence numbers",
        path="changes/copied_rows.py",
        before="is_copy = removed_sequence_numbers[one] == added_sequence_numbers[other]",
        after="is_copy = np.ones(len(one), np.bool_)",
        suite=("tests/batch/map/test_trusted_lineage.py",),
    ),
    Mutation(
        name="row ids that a side has twice are trusted",
        path="changes/copied_rows.py",
        before="if not ((one < num_removed) & (other >= num_removed)).all():",
        after="if False:",
        suite=("tests/batch/map/test_trusted_lineage.py",),
    ),
    Mutation(
        name="row lineage is trusted although the pipeline does not",
        path="batch/fast_ways.py",
        before="is not FastWay.LINEAGE or trusts_lineage)",
        after="is not None)",
        suite=("tests/batch/map/test_fast_ways.py",),
    ),
    Mutation(
        name="a sample that differs passes",
        path="batch/map/verified_sample.py",
        before="found.require(expected, what=what)",
        after="pass",
        suite=("tests/batch/map/test_verified_sample.py",),
    ),
    Mutation(
        name="files that two steps remove and add are compared by position",
        path="batch/map/rewritten_files.py",
        before="return file.effects[0].change_ordinal, file.data_file.record_count",
        after="return 0, file.data_file.record_count",
        suite=("tests/batch/map/test_rewritten_files.py", "tests/batch/map/test_carryover.py"),
    ),
    Mutation(
        name="NaN is not NaN",
        path="changes/row_hash/canonical.py",
        before="low[is_nan] = _NAN",
        after="low[is_nan] = np.random.default_rng().integers(1 << 62, size=is_nan.sum()).view(np.uint64)",
    ),
    Mutation(
        name="-0.0 is not 0.0",
        path="changes/row_hash/canonical.py",
        before="values = np.add(_values(array, dtype), 0.0, dtype=np.float64)",
        after="values = np.array(_values(array, dtype), np.float64)",
    ),
    Mutation(
        name="null is the value that lies behind it",
        path="changes/row_hash/canonical.py",
        before="if array.null_count == 0:",
        after="if True:",
    ),
    Mutation(
        name="equal rows count once",
        path="changes/consolidate.py",
        before="return positions[ascending], sums[kept[ascending]]",
        after="return positions[ascending], np.sign(sums[kept[ascending]])",
    ),
    Mutation(
        name="one row removed cancels all equal rows added",
        path="changes/consolidate.py",
        before="kept_added = first_of(groups.starts + removed_rows, added_rows - removed_rows)",
        after="kept_added = first_of(groups.starts + removed_rows, np.where(removed_rows, 0, added_rows))",
    ),
    Mutation(
        name="a likely pair counts as equal",
        path="batch/map/matched_files.py",
        before="differs |= mask",
        after="pass",
    ),
    Mutation(
        name="a dictionary is no part of a column's bytes",
        path="iceberg/files/column_layout.py",
        before="if dictionary and dictionary < first else first",
        after="if False else first",
        suite=("tests/iceberg/files/test_identical_columns.py",),
    ),
    Mutation(
        name="columns whose bytes differ count as identical",
        path="iceberg/files/identical_columns.py",
        before="if len(here) == size and here == there:",
        after="if len(here) == size:",
        suite=("tests/iceberg/files/test_identical_columns.py",),
    ),
    Mutation(
        name="the row groups of identical columns may have any number of rows",
        path="iceberg/files/column_layout.py",
        before="tuple(_chunk_decoding(chunk) for chunk in chunks),",
        after="(),",
        suite=("tests/iceberg/files/test_identical_columns.py",),
    ),
    Mutation(
        name="equal columns of a changed row are those of another row",
        path="batch/map/updated_columns.py",
        before="found.append(start + rows)",
        after="found.append(start + np.maximum(rows, 1) - 1)",
        suite=("tests/batch/map/test_fast_ways.py",),
    ),
    Mutation(
        name="as many rows are paired as the larger side has",
        path="changes/updates.py",
        before="np.repeat(np.minimum(group_inserts, sizes - group_inserts), sizes)",
        after="np.repeat(np.maximum(group_inserts, sizes - group_inserts), sizes)",
    ),
    Mutation(
        name="rows are paired across steps",
        path="changes/updates.py",
        before="starts = _starts(take, (identity_hashes.high, identity_hashes.low, change_ordinals))",
        after="starts = _starts(take, (identity_hashes.high, identity_hashes.low))",
    ),
    Mutation(
        name="the images of an update are swapped",
        path="changes/updates.py",
        before="[ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER]]",
        after="[ChangeType.UPDATE_AFTER, ChangeType.UPDATE_BEFORE]]",
    ),
    Mutation(
        name="a null key is paired with nothing",
        path="batch/rows/shuffled_form.py",
        before="identities = row_hashes(self.shape.identity_of(rows.batch))",
        after="identities = hashes",
    ),
    Mutation(
        name="net changes carry the first step that changed their identity",
        path="changes/net.py",
        before="np.maximum.reduceat(",
        after="np.minimum.reduceat(",
    ),
    Mutation(
        name="net changes carry the last step that changed their row, not their identity",
        path="changes/net.py",
        before="_last_of_each(rows if identity_hashes is None else group_by_hash(identity_hashes), change_ordinals)",
        after="_last_of_each(rows, change_ordinals)",
    ),
    Mutation(
        name="a row that got another row id is a change",
        path="changes/identity_moves.py",
        before="common = np.minimum(added, removed)",
        after="common = np.zeros_like(added)",
    ),
    Mutation(
        name="an inherited row id is one too great",
        path="iceberg/schemas/row_lineage.py",
        before="pa.array(positions + first_row_id, pa.int64())",
        after="pa.array(positions + first_row_id + 1, pa.int64())",
        suite=("tests/spark/test_merge_on_read.py::test_row_ids_make_an_update_of_what_a_vector_took_out",),
    ),
    Mutation(
        name="the filter does not look at removed rows",
        path="batch/rows/row_reader.py",
        before="if self.shape.row_filter is not None:",
        after="if self.shape.row_filter is not None and any(each.weight > 0 for each in file.effects):",
    ),
)
