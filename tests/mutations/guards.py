"""Mutations of the guards against full disks, dying machines and late runs: docs/reliability.md says what they hold."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["GUARDS"]

_DISKS: Final = ("tests/faults/test_disk_faults.py",)
_THREADS: Final = ("tests/test_threads.py",)
_LANES: Final = ("tests/orchestration/tasks/test_lanes.py",)
_STORE: Final = ("tests/storage/test_store_errors.py",)
_LARGE_ROW: Final = ("tests/faults/test_large_row.py",)
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
        before="            path.unlink(missing_ok=True)\n        finally:\n            os.close(descriptor)\n",
        after="            pass\n        finally:\n            os.close(descriptor)\n",
        suite=_DISKS,
    ),
    Mutation(
        name="a file that its writer could not remove stays locked",
        path="storage/synced_files.py",
        before="        finally:\n            os.close(descriptor)\n\n\ndef sync_folder",
        after="        except FileNotFoundError:\n            os.close(descriptor)\n\n\ndef sync_folder",
        suite=("tests/storage/test_local_store.py",),
    ),
    Mutation(
        name="a create whose answer was lost has failed",
        path="storage/object_store.py",
        before="                if self._is_seen(key):",
        after="                if False:",
        suite=_STORE,
    ),
    Mutation(
        name="a store that ignores create-if-absent passes",
        path="storage/probe.py",
        before='        if store.create(key, b"second") or store.get(key) != b"first":',
        after="        if False:",
        suite=("tests/storage/test_probe.py",),
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
        name="a conflict with nothing there is taken for a value",
        path="storage/object_store.py",
        before="                if self.size(key) is not None:\n                    return self._found_there()\n",
        after="                return self._found_there()\n",
        suite=("tests/storage/test_object_store.py",),
    ),
    Mutation(
        name="credentials that expire in the middle of a phase are not renewed",
        path="batch/run/renewed_files.py",
        before="        if access == self._access or outputs == self._outputs_before:\n",
        after="        if True:\n",
        suite=("tests/batch/run/test_renewed_files.py",),
    ),
    Mutation(
        name="bytes of an ORC file that its codec refuses are an internal error",
        path="iceberg/files/orc_file.py",
        before="        if type(cause) is not pa.ArrowException:\n",
        after="        if True:\n",
        suite=("tests/iceberg/files/test_orc_file.py",),
    ),
    Mutation(
        name="a damaged Parquet footer ends the process",
        path="iceberg/files/parquet_file.py",
        before="    check_chunks(metadata)\n",
        after="",
        suite=("tests/iceberg/files/test_parquet_footer.py",),
    ),
    Mutation(
        name="a thread that died as it began is waited for without end",
        path="threads.py",
        before="        self._started = _Birth()\n",
        after="",
        suite=_THREADS,
    ),
    Mutation(
        name="a thread that is started twice counts as one that the system refused",
        path="threads.py",
        before="            if not is_new:\n                raise\n",
        after="",
        suite=_THREADS,
    ),
    Mutation(
        name="staged files are decoded in threads of Arrow",
        path="sinks/parquet_files.py",
        before="iter_batches(row_groups=[group], use_threads=False)",
        after="iter_batches(row_groups=[group])",
        suite=("tests/sinks/test_parquet_files.py",),
    ),
    Mutation(
        name="a lane counts on threads that died",
        path="orchestration/tasks/lanes.py",
        before="for thread in self._begun if thread.is_alive()}",
        after="for thread in self._begun}",
        suite=_LANES,
    ),
    Mutation(
        name="a lane keeps a call for which it refused a thread",
        path="orchestration/tasks/lanes.py",
        before="                self._waiting.pop()\n",
        after="",
        suite=_LANES,
    ),
    Mutation(
        name="calls of a thread that died count as made",
        path="threads.py",
        before="if any(answer is _NO_ANSWER for answer in self._answers):",
        after="if False:",
        suite=_THREADS,
    ),
    Mutation(
        name="a machine without room for temporary folders is not said to be one",
        path="storage/local_folders.py",
        before='        with on_local_disk("no folder for temporary files can be made"):\n',
        after="        if True:\n",
        suite=("tests/storage/test_local_folders.py",),
    ),
    Mutation(
        name="what a full disk did not take is written once more as the file is closed",
        path="storage/local_folders.py",
        before="        with suppress(OSError):\n            file.close()\n",
        after="        file.close()\n",
        suite=("tests/shuffle/test_stored_extents.py", "tests/shuffle/test_collected_blocks.py"),
    ),
    Mutation(
        name="a full disk under the copy of a file is a fault of the file",
        path="iceberg/files/file_formats.py",
        before="            with on_local_disk(_CANNOT_COPY):\n                copy.write(chunk)\n",
        after="            copy.write(chunk)\n",
        suite=("tests/iceberg/files/test_orc_file.py",),
    ),
    Mutation(
        name="rows of any size are taken",
        path="batch/rows/memory_limit.py",
        before="        if batch.nbytes <= most:",
        after="        if True:",
        suite=_LARGE_ROW,
    ),
    Mutation(
        name="a row is thought to be in memory a third as often as it is",
        path="batch/rows/memory_limit.py",
        before="_COPIES: Final = 20",
        after="_COPIES: Final = 6",
        suite=_LARGE_ROW,
    ),
    Mutation(
        name="a pipeline file may hold what errors hide",
        path="pipeline/secret.py",
        before="return names_secret(key) and ",
        after="return False and ",
        suite=("tests/pipeline/test_secret.py",),
    ),
)
