"""Mutations of the guards of map outputs: checksums and lengths of their files, and which of their records counts."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["MAP_OUTPUTS"]

_FETCH: Final = ("tests/shuffle/test_fetch.py",)
_BLOCKS: Final = ("tests/shuffle/test_blocks.py",)
_OUTPUTS: Final = ("tests/shuffle/test_committed_output.py",)
_INDEX: Final = ("tests/shuffle/test_index_file.py",)
_HOT: Final = ("tests/batch/reduce/test_hot_partition.py",)
_HASH_ROWS: Final = ("tests/shuffle/test_golden_hash_rows.py",)
_MOVES_FILE: Final = ("tests/batch/reduce/test_moves_file.py",)
_CANCELLED: Final = ("tests/batch/reduce/test_cancelled_rows.py",)
_MOVES: Final = ("tests/batch/reduce/test_write_moves.py",)
_MATCHED: Final = ("tests/batch/reduce/test_match_rows.py",)
_JOINED: Final = ("tests/shuffle/test_joined_outputs.py",)
_LOG: Final = ("tests/shuffle/test_map_output_log.py",)

MAP_OUTPUTS: Final = (
    Mutation(
        name="blocks that are read with their index may be damaged",
        path="shuffle/committed_output.py",
        before="        _whole(record, record.data, blocks)\n",
        after="        pass\n",
        suite=_JOINED,
    ),
    Mutation(
        name="the file of a small map output is taken to begin with its blocks",
        path="shuffle/collected_blocks.py",
        before='blocks["offset"] = record.blocks_at + output.offsets[filled]',
        after='blocks["offset"] = output.offsets[filled]',
        suite=_JOINED,
    ),
    Mutation(
        name="extents take the blocks of all map outputs",
        path="shuffle/committed_output.py",
        before="if end <= most_block_bytes}",
        after="if end >= 0}",
        suite=_JOINED,
    ),
    Mutation(
        name="extents of parts have the whole partition",
        path="shuffle/collected_blocks.py",
        before="self._embedded_in(blocks) if each.parts is None else {}",
        after="self._embedded_in(blocks)",
        suite=_JOINED,
    ),
    Mutation(
        name="a map task compares any number of rows",
        path="batch/plan/map_tasks.py",
        before="packed = _packed(units, map_task_bytes=map_task_bytes, most_rows=_MOST_ROWS)",
        after="packed = _packed(units, map_task_bytes=map_task_bytes, most_rows=None)",
        suite=("tests/batch/plan/test_map_tasks.py",),
    ),
    Mutation(
        name="half an answer is decoded",
        path="shuffle/piece_of_file.py",
        before="    if len(data) != stop - start:",
        after="    if False:",
        suite=_FETCH,
    ),
    Mutation(
        name="a block is decoded whatever its checksum",
        path="shuffle/fetch.py",
        before="        if _crc32(data) != self.crc32:",
        after="        if False:",
        suite=_FETCH,
    ),
    Mutation(
        name="a data file that is gone is a store that does not answer",
        path="shuffle/piece_of_file.py",
        before="        if found_bytes == size_bytes:\n            raise\n",
        after="        raise\n",
        suite=_FETCH,
    ),
    Mutation(
        name="a block takes as much memory as its header says",
        path="shuffle/blocks.py",
        before="    if not 0 < declared <= max_bytes:",
        after="    if False:",
        suite=_BLOCKS,
    ),
    Mutation(
        name="bytes after a block are ignored",
        path="shuffle/blocks.py",
        before=" or not decompressor.eof or decompressor.unused_data:",
        after=":",
        suite=_BLOCKS,
    ),
    Mutation(
        name="bytes after a block that is read piece by piece are ignored",
        path="shuffle/block_frame.py",
        before=" or self._decompressor.unused_data or self._source.read(1):",
        after=":",
        suite=_BLOCKS,
    ),
    Mutation(
        name="Arrow's offsets in a block are trusted",
        path="shuffle/blocks.py",
        before="            batch.validate(full=True)\n",
        after="",
        suite=_BLOCKS,
    ),
    Mutation(
        name="an index of another length is read",
        path="shuffle/index_file.py",
        before="    if len(data) != expected_bytes:",
        after="    if False:",
        suite=_INDEX,
    ),
    Mutation(
        name="offsets may fall",
        path="shuffle/index_file.py",
        before=" or (offsets[1:] < offsets[:-1]).any():",
        after=":",
        suite=_INDEX,
    ),
    Mutation(
        name="an index need not end where its data file does",
        path="shuffle/index_file.py",
        before="    if offsets[-1] != data_size_bytes:",
        after="    if False:",
        suite=_INDEX,
    ),
    Mutation(
        name="a small file is read whatever its checksum",
        path="shuffle/committed_output.py",
        before="    if (len(data), zlib.crc32(data)) != (file.size_bytes, file.crc32):",
        after="    if False:",
        suite=_OUTPUTS,
    ),
    Mutation(
        name="the output of another plan is read",
        path="shuffle/committed_output.py",
        before="(num_partitions, schema_fingerprint(schema)):",
        after="(record.num_partitions, record.schema_fingerprint):",
        suite=_OUTPUTS,
    ),
    Mutation(
        name="a data file that was cut is the fault of a store that answers again later",
        path="shuffle/piece_of_file.py",
        before="        if found_bytes == size_bytes:",
        after="        if found_bytes is not None:",
        suite=("tests/shuffle/test_fetch.py", "tests/batch/run/test_phases.py"),
    ),
    Mutation(
        name="a repair that was interrupted is left to the phase of the map tasks",
        path="batch/reduce/repair.py",
        before="if not all(generations.values()):",
        after="if True:",
        suite=("tests/batch/run/test_phases.py",),
    ),
    Mutation(
        name="coalesce runs map tasks that never ran",
        path="batch/reduce/repair.py",
        before="if not all(generations.values()):",
        after="if False:",
        suite=("tests/batch/reduce/test_coalesce_map_outputs.py",),
    ),
    Mutation(
        name="the error of a task holds what the task had in memory",
        path="batch/context/task_attempt.py",
        before="        traceback.clear_frames(error.__traceback__)\n",
        after="",
        suite=("tests/batch/context/test_task_attempt.py",),
    ),
    Mutation(
        name="each attempt of a phase is the first",
        path="batch/phase_record.py",
        before="is_first=before.attempts == 0",
        after="is_first=True",
        suite=("tests/batch/run/test_phases.py",),
    ),
    Mutation(
        name="a commit record counts whatever its checksum",
        path="shuffle/map_output_record.py",
        before="        if not is_whole:",
        after="        if False:",
        suite=("tests/shuffle/test_map_output_record.py",),
    ),
    Mutation(
        name="the last attempt of a map task counts",
        path="shuffle/map_output_log.py",
        before="is_created = self._store.create(",
        after="is_created = not self._store.put(",
        suite=_LOG,
    ),
    Mutation(
        name="a void generation counts",
        path="shuffle/map_output_log.py",
        before="        while has_voids and self._store.size(_void_key(map_id, generation)) is not None:",
        after="        while False:",
        suite=_LOG,
    ),
    Mutation(
        name="a void is not announced",
        path="shuffle/map_output_log.py",
        before="        self._store.create(_VOIDS, dump_document(VoidsRecord()))\n",
        after="",
        suite=_LOG,
    ),
    Mutation(
        name="a record that is created under a void counts",
        path="shuffle/map_output_log.py",
        before="if is_created and self._store.size(_void_key(record.map_id, generation)) is None:",
        after="if is_created:",
        suite=_LOG,
    ),
    Mutation(
        name="a range of parts reads all rows of a block that is not divided",
        path="shuffle/extents.py",
        before="np.flatnonzero((parts >= first) & (parts < stop))",
        after="np.arange(len(parts))",
        suite=_HOT,
    ),
    Mutation(
        name="a range of parts leaves out blocks that are not divided",
        path="shuffle/collected_blocks.py",
        before="(parts == WHOLE) | ",
        after="",
        suite=_HOT,
    ),
    Mutation(
        name="parts are taken from bits that choose the reduce partition",
        path="shuffle/divided_partitions.py",
        before="(identity_hashes.high >> _PART_SHIFT)",
        after="(identity_hashes.low % np.uint64(8))",
        suite=_HOT,
    ),
    Mutation(
        name="parts of a partition may be in no range",
        path="shuffle/reduce_ranges.py",
        before="        if stop_part != NUM_PARTS:",
        after="        if False:",
        suite=("tests/shuffle/test_reduce_ranges.py",),
    ),
    Mutation(
        name="rows that moved to another identity are cancelled in another part",
        path="shuffle/reduce_ranges.py",
        before="places + part_ids(identity_hashes)",
        after="places",
        suite=_HOT,
    ),
    Mutation(
        name="a row may lack its hash row",
        path="shuffle/committed_output.py",
        before="    if hash_partitions and statistics.sums(",
        after="    if False and statistics.sums(",
        suite=_HASH_ROWS,
    ),
    Mutation(
        name="hash rows of a task that spilled are lost",
        path="shuffle/buffered_rows.py",
        before="        if hash_rows:\n            write_rows",
        after="        if hash_rows and not writer._is_spill:\n            write_rows",
        suite=_HASH_ROWS,
    ),
    Mutation(
        name="a moves file counts whatever its checksum",
        path="batch/reduce/moves_file.py",
        before="    return _CRC32.pack(crc32) == ",
        after="    return True or _CRC32.pack(crc32) == ",
        suite=_MOVES_FILE,
    ),
    Mutation(
        name="a moves file has its rows in the order in which they came",
        path="batch/reduce/moves_file.py",
        before="moves.ordered().to_bytes()",
        after="moves.to_bytes()",
        suite=_MOVES_FILE,
    ),
    Mutation(
        name="a moves file that is damaged stays",
        path="batch/reduce/write_moves.py",
        before="if not store.create(key, path) and not has_whole_moves(store, key):",
        after="if not store.create(key, path) and False:",
        suite=_MOVES,
    ),
    Mutation(
        name="equal rows of many identities are held in memory together",
        path="batch/reduce/match_rows.py",
        before="    if rows <= most_rows:",
        after="    if rows:",
        suite=_MATCHED,
    ),
    Mutation(
        name="identities give their rows as each piece comes",
        path="changes/identity_moves.py",
        before="            np.subtract.at(left, of_piece[rows], gone)\n",
        after="",
        suite=_MATCHED,
    ),
    Mutation(
        name="a range reads one moves file",
        path="batch/reduce/load_moves.py",
        before="keys = [moves_key(hash_range_id) for hash_range_id in extents.hash_range_ids]",
        after="keys = [moves_key(hash_range_id) for hash_range_id in extents.hash_range_ids][:1]",
        suite=_MOVES,
    ),
    Mutation(
        name="the row behind a mark that is too low is not looked at",
        path="batch/reduce/cancelled_rows.py",
        before="max(0, first - 1)",
        after="first",
        suite=_CANCELLED,
    ),
    Mutation(
        name="pieces of one identity get the cancelled rows of all identities above it",
        path="batch/reduce/cancelled_rows.py",
        before='int(np.searchsorted(some, low[0])), int(np.searchsorted(some, high[0], "right"))',
        after="int(np.searchsorted(some, low[0])), len(some)",
        suite=_CANCELLED,
    ),
    Mutation(
        name="ranges are made again under ids that have results",
        path="shuffle/reduce_ranges.py",
        before="    if store.create(key, dump_document(plan)):\n        return plan\n",
        after="    store.put(key, dump_document(plan))\n",
        suite=("tests/shuffle/test_reduce_ranges.py",),
    ),
)
