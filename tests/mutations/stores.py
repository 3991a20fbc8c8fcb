"""Mutations of the guards of stores: objects that are created once, records of batches, parts, answers and access."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["STORES"]

_STORE: Final = ("tests/storage/test_store_errors.py",)
_CHECKPOINT: Final = ("tests/checkpoint/test_log.py",)

STORES: Final = (
    Mutation(
        name="a service without conditional puts is asked again and again",
        path="storage/clients.py",
        before="            if is_not_implemented(cause):\n                raise\n",
        after="",
        suite=_STORE,
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
        before='        is_kept = not store.create(key, b"second") and store.get(key) == b"first"\n',
        after="        is_kept = True\n",
        suite=("tests/storage/test_probe.py",),
    ),
    Mutation(
        name="a store that looks before it writes passes",
        path="storage/probe.py",
        before="    return len(won) <= 1 and store.get(key) in (won or values)\n",
        after="    return True\n",
        suite=("tests/storage/test_probe.py::test_a_store_that_looks_before_it_writes_is_refused",),
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
        before="            taken += 1\n",
        after="            self._store.put(key, file)\n",
        suite=("tests/sinks/test_late_attempts.py",),
    ),
    Mutation(
        name="a file with the same rows in other bytes is not kept",
        path="sinks/files.py",
        before="            if stored_bytes is not None and holds_same_rows(self._store, key, file):",
        after="            if False:",
        suite=("tests/sinks/test_damaged_parts.py",),
    ),
    Mutation(
        name="a part is cut by the averages of the batches in which its rows come",
        path="sinks/row_groups.py",
        before="np.cumsum(row_bytes(batch))",
        after="np.arange(1, batch.num_rows + 1) * max(1, batch.nbytes // max(1, batch.num_rows))",
        suite=("tests/sinks/test_late_attempts.py",),
    ),
    Mutation(
        name="rows with NaN differ from themselves",
        path="sinks/same_rows.py",
        before="    return row_hashes_of_batch(one, key=key).equals(",
        after="    return False and row_hashes_of_batch(one, key=key).equals(",
        suite=("tests/sinks/test_late_attempts.py",),
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
        name="a wrong clock is said to be a wrong credential",
        path="storage/store_errors.py",
        before="elif not self.is_local and is_of_another_time(str(cause)):",
        after="elif False:",
        suite=_STORE,
    ),
    Mutation(
        name="a refusal does not say its code",
        path="storage/store_errors.py",
        before="code = None if self.is_local else code_of_answer(cause)",
        after="code = None",
        suite=_STORE,
    ),
)
