"""Mutations of the guards against damage, full disks and dying machines: docs/reliability.md says what they hold."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["GUARDS"]

_DISKS: Final = ("tests/faults/test_disk_faults.py",)
_FETCH: Final = ("tests/shuffle/test_fetch.py",)
_BLOCKS: Final = ("tests/shuffle/test_blocks.py",)
_OUTPUTS: Final = ("tests/shuffle/test_committed_output.py",)
_INDEX: Final = ("tests/shuffle/test_index_file.py",)
_LOG: Final = ("tests/shuffle/test_map_output_log.py",)
_STORE: Final = ("tests/storage/test_store_errors.py",)
_CHECKPOINT: Final = ("tests/checkpoint/test_log.py",)

GUARDS: Final = (
    Mutation(
        name="a value is linked before it is on disk",
        path="storage/synced_files.py",
        before="        os.fsync(descriptor)\n        yield path\n",
        after="        yield path\n",
        suite=("tests/storage/test_power_loss.py",),
    ),
    Mutation(
        name="a service without conditional puts is asked again and again",
        path="storage/clients.py",
        before="            if is_not_implemented(cause):\n                raise\n",
        after="",
        suite=_STORE,
    ),
    Mutation(
        name="a name counts before its folder is on disk",
        path="storage/local_store.py",
        before='        with self._place.faults("create", key):\n            sync_folder(self._path(key).parent)\n',
        after="",
        suite=("tests/storage/test_power_loss.py",),
    ),
    Mutation(
        name="the rest of a short write is forgotten",
        path="storage/synced_files.py",
        before="        chunk = chunk[os.write(descriptor, chunk) :]",
        after="        os.write(descriptor, chunk)\n        return",
        suite=_DISKS,
    ),
    Mutation(
        name="a file that came out short is linked",
        path="storage/synced_files.py",
        before="    if written_bytes != size_bytes:",
        after="    if False:",
        suite=("tests/storage/test_local_store.py",),
    ),
    Mutation(
        name="a full disk ends a run for good",
        path="storage/store_errors.py",
        before="    errno.ENOSPC, ",
        after="    ",
        suite=_DISKS,
    ),
    Mutation(
        name="too many open files end a run for good",
        path="storage/store_errors.py",
        before="errno.EMFILE, ",
        after="",
        suite=_DISKS,
    ),
    Mutation(
        name="a file whose write failed stays behind",
        path="storage/synced_files.py",
        before="        with suppress(FileNotFoundError):\n            path.unlink()\n",
        after="        pass\n",
        suite=_DISKS,
    ),
    Mutation(
        name="a create whose answer was lost has failed",
        path="storage/object_store.py",
        before="                if self._is_seen(key):",
        after="                if False:",
        suite=_STORE,
    ),
    Mutation(
        name="half an answer is decoded",
        path="shuffle/fetch.py",
        before="    if len(data) != stop - start:",
        after="    if False:",
        suite=_FETCH,
    ),
    Mutation(
        name="a store that ignores create-if-absent passes",
        path="storage/probe.py",
        before='        if store.create(key, b"second") or store.get(key) != b"first":',
        after="        if False:",
        suite=("tests/storage/test_probe.py",),
    ),
    Mutation(
        name="a block is decoded whatever its checksum",
        path="shuffle/fetch.py",
        before="    if zlib.crc32(block) != crc32:",
        after="    if False:",
        suite=_FETCH,
    ),
    Mutation(
        name="a data file that is gone is a store that does not answer",
        path="shuffle/fetch.py",
        before="        if found_bytes == file.data_size_bytes:\n            raise\n",
        after="        raise\n",
        suite=_FETCH,
    ),
    Mutation(
        name="a block takes as much memory as its header says",
        path="shuffle/blocks.py",
        before="        if not 0 < declared <= max_bytes:",
        after="        if False:",
        suite=_BLOCKS,
    ),
    Mutation(
        name="bytes behind a block are ignored",
        path="shuffle/blocks.py",
        before=" or not decompressor.eof or decompressor.unused_data:",
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
        name="a data file that was cut is read",
        path="shuffle/committed_output.py",
        before="    if found_bytes != record.data.size_bytes:",
        after="    if False:",
        suite=_OUTPUTS,
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
        name="ranges are made again under ids that have results",
        path="shuffle/reduce_ranges.py",
        before="    if store.create(key, dump_document(plan)):\n        return plan\n",
        after="    store.put(key, dump_document(plan))\n",
        suite=("tests/shuffle/test_reduce_ranges.py",),
    ),
    Mutation(
        name="a backfill that was killed before its cleanup leaves its files",
        path="engines/run_batch.py",
        before="            try_to_clean_up(opened.reference)\n",
        after="            pass\n",
        suite=("tests/engines/test_run_batch.py",),
    ),
    Mutation(
        name="a batch may be opened over an open one",
        path="checkpoint/log.py",
        before="                refuse_another_beginning(record, self._committed_before(number), url=self.url)",
        after="                pass",
        suite=_CHECKPOINT,
    ),
    Mutation(
        name="a checkpoint that lost its first records starts over",
        path="checkpoint/log.py",
        before="            self._refuse_reopening(number)\n",
        after="",
        suite=_CHECKPOINT,
    ),
    Mutation(
        name="a run commits a batch of a checkpoint that was deleted",
        path="checkpoint/record_order.py",
        before="    if offset is not None and offset.checkpoint_id != record.checkpoint_id:",
        after="    if False:",
        suite=("tests/batch/test_late_runs.py",),
    ),
    Mutation(
        name="a manifest names parts that are gone",
        path="sinks/files.py",
        before="        self._refuse_damaged(summary.batch_number, messages)\n",
        after="",
        suite=("tests/sinks/test_damaged_parts.py",),
    ),
    Mutation(
        name="a late attempt replaces a part of a whole batch",
        path="sinks/files.py",
        before="        if stored_bytes is not None and holds_same_rows(self._store, key, file):",
        after="        if False:",
        suite=("tests/sinks/test_damaged_parts.py",),
    ),
    Mutation(
        name="a batch whose sums differ is committed",
        path="audit/sums.py",
        before="            if (count, hash_sum) != (wanted_count, wanted_sum):",
        after="            if False:",
        suite=("tests/batch/commit/test_commit_batch.py",),
    ),
    Mutation(
        name="a store without TLS is opened without permission",
        path="storage/location.py",
        before="    refuse_plain(url, endpoint, client)\n",
        after="",
        suite=("tests/storage/test_location.py::test_an_endpoint_without_tls_needs_a_key_of_its_own",),
    ),
    Mutation(
        name="a refused certificate is tried again until the patience ends",
        path="storage/object_store.py",
        before="                self._clients.meet()\n",
        after="                pass\n",
        suite=("tests/storage/test_certificates.py",),
    ),
    Mutation(
        name="a damaged Parquet footer ends the process",
        path="iceberg/files/parquet_file.py",
        before="        check_chunks(plain.metadata)\n",
        after="",
        suite=("tests/iceberg/files/test_parquet_footer.py",),
    ),
)
