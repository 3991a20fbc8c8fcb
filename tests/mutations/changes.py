"""Mutations of changes: which rows are equal, what is left of them, how they are paired and delivered."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["CHANGES"]

_FORGED: Final = ("tests/batch/test_forged_rows.py",)
_COLLISIONS: Final = ("tests/changes/row_hash/test_collisions.py",)

CHANGES: Final = (
    Mutation(
        name="every batch has the key that whoever writes the rows knows",
        path="batch/open/new_batch.py",
        before="hash_key=session.surroundings.new_key(),",
        after="hash_key=0,",
        suite=_FORGED,
    ),
    Mutation(
        name="read_changes compares under a key that is known",
        path="batch/changelog_scan.py",
        before="hash_key=RowHashes.new_key(),",
        after="hash_key=0,",
        suite=_FORGED,
    ),
    Mutation(
        name="verify compares under the key of the batch",
        path="batch/verify/schema_run_replay.py",
        before="replay.add(row_hashes_of_batch(batch, names, key=key), weights)",
        after="replay.add(row_hashes_of_batch(batch, names, key=manifest.batch.hash_key), weights)",
        suite=_FORGED,
    ),
    Mutation(
        name="words of a text count alike at every position",
        path="changes/row_hash/sequences.py",
        before="at_position = [each[position] for each in factors]",
        after="at_position = [each[0] for each in factors]",
        further=(
            Edit(
                path="changes/row_hash/mixing.py",
                before="return tuple(np.ascontiguousarray(drawn.reshape(count, _FACTORS).T))",
                after="return tuple(np.repeat(each[:1], count) for each in drawn.reshape(count, _FACTORS).T)",
            ),
        ),
        suite=_COLLISIONS,
    ),
    Mutation(
        name="a text goes on where a shorter one ends",
        path="changes/row_hash/byte_hash.py",
        before="            found |= _END[left]\n",
        after="            pass\n",
        suite=_COLLISIONS,
    ),
    Mutation(
        name="both halves of the hash multiply the same parts of a word",
        path="changes/row_hash/mixing.py",
        before="np.right_shift(words, _S16, out=scratch)",
        after="np.right_shift(words, _S32, out=scratch)",
        suite=("tests/changes/row_hash",),
    ),
    Mutation(
        name="rows of one identity are paired in the order of the batch's own key",
        path="batch/reduce/group_changes.py",
        before="return row_hashes_of_batch(self.rows.take(pa.array(positions)), key=RowHashes.PUBLIC_KEY)",
        after="return self.hashes.take(positions)",
        suite=("tests/batch/reduce/test_pairing_order.py",),
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
        name="null is the value that lies under it",
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
        name="as many rows are paired as the larger side has",
        path="changes/updates.py",
        before="np.repeat(np.minimum(group_inserts, sizes - group_inserts), sizes)",
        after="np.repeat(np.maximum(group_inserts, sizes - group_inserts), sizes)",
    ),
    Mutation(
        name="a delete without a pair comes after the updates of its identity and step",
        path="changes/updates.py",
        before="np.where(is_paired, alone + 2 * pair + inserts, rank + pairs * inserts)",
        after="np.where(is_paired, 2 * pair + inserts, rank + np.where(is_insert, pairs, 2 * pairs))",
    ),
    Mutation(
        name="rows are paired across steps",
        path="changes/updates.py",
        before="return identity_hashes.high, identity_hashes.low, change_ordinals",
        after="return identity_hashes.high, identity_hashes.low",
    ),
    Mutation(
        name="the images of an update are swapped",
        path="changes/updates.py",
        before="[ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER]]",
        after="[ChangeType.UPDATE_AFTER, ChangeType.UPDATE_BEFORE]]",
    ),
    Mutation(
        name="as many rows of an identity beyond memory are paired as the larger side has",
        path="batch/reduce/oversized_identity.py",
        before="pairs = int(self._copies[ordinal].min())",
        after="pairs = int(self._copies[ordinal].max())",
    ),
    Mutation(
        name="net changes of an identity beyond memory carry the last step of their last piece",
        path="batch/reduce/group_changes.py",
        before="last_ordinal = max(last_ordinal, each.last_ordinal)",
        after="last_ordinal = each.last_ordinal",
        suite=("tests/batch/reduce/test_small_memory.py",),
    ),
    Mutation(
        name="copies of a row beyond memory are counted once",
        path="batch/reduce/range_rows.py",
        before="columns[place] = pa.array(sums, pa.int64())",
        after="pass",
        suite=("tests/batch/reduce/test_small_memory.py",),
    ),
    Mutation(
        name="parts of a part are divided by the same bits again",
        path="batch/reduce/divided_rows.py",
        before="shift = max(_HASH_BITS - (depth + 1) * _PART_BITS, 0)",
        after="shift = _HASH_BITS - _PART_BITS",
        suite=("tests/batch/reduce/test_divided_rows.py",),
    ),
    Mutation(
        name="a null key is paired with nothing",
        path="batch/rows/shuffled_form.py",
        before="identities = row_hashes(self.shape.identity_of(rows.batch), key=self.shape.hash_key)",
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
        before="_last_of_each(rows if identity_hashes is None else HashGroups.of(identity_hashes), change_ordinals)",
        after="_last_of_each(rows, change_ordinals)",
    ),
    Mutation(
        name="a row that got another row id is a change",
        path="changes/identity_moves.py",
        before="common = np.minimum(self._sums[1], self._sums[-1])",
        after="common = np.zeros_like(self._sums[1])",
    ),
    Mutation(
        name="Arrow's text of a year that it does not know is delivered",
        path="sinks/moment_texts.py",
        before="if not pc.any(is_beyond).as_py():",
        after="if True:",
        suite=("tests/sinks/opensearch/test_row_documents.py", "tests/sinks/kafka/test_json_texts.py"),
    ),
    Mutation(
        name="entries of a null map are those of the next one",
        path="sinks/map_entries.py",
        before="if lengths[~is_there].any():",
        after="if False:",
        suite=("tests/sinks/test_map_entries.py",),
    ),
)
