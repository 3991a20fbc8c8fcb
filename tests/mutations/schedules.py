"""Mutations that the simulation must notice: guards that matter only when runs disturb each other."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["SCHEDULES"]

_SIMULATION: Final = ("tests/simulation/test_simulation.py::test_no_schedule_breaks_a_promise",)


def _seen(name: str, path: str, *, before: str, after: str) -> Mutation:
    return Mutation(name=f"in some schedule {name}", path=path, before=before, after=after, suite=_SIMULATION)


SCHEDULES: Final = (
    _seen(
        "a coordinated store creates what is an object already",
        "storage/coordinated_store.py",
        before="if self._objects.size(key) is not None:",
        after="if False:",
    ),
    _seen(
        "a coordinated store deletes objects only",
        "storage/coordinated_store.py",
        before="        self._table.delete(wanted)\n",
        after="",
    ),
    _seen(
        "a zombie leaves what it wrote",
        "batch/fenced_store.py",
        before="if is_over():",
        after="if False:",
    ),
    _seen(
        "a late run ends with the error that it stumbled over",
        "batch/ends/already_finished.py",
        before="if not isinstance(error, BatchCommittedError) and not _is_over(reference, error):",
        after="if True:",
    ),
    _seen(
        "records are replaced",
        "checkpoint/record_store.py",
        before="if self.store.create(key, data):",
        after="if not self.store.put(key, data):",
    ),
    _seen(
        "the commit record of a map task is replaced",
        "shuffle/map_output_log.py",
        before="is_created = self._store.create(",
        after="is_created = not self._store.put(",
    ),
    _seen(
        "a void generation counts",
        "shuffle/map_output_log.py",
        before="while has_voids and self._store.size(_void_key(map_id, generation)) is not None:",
        after="while False:",
    ),
    _seen(
        "damaged map outputs are not voided",
        "batch/reduce/repair.py",
        before="folder.map_outputs.void(map_id, generation, damage.reason)",
        after="pass",
    ),
    _seen(
        "extents of a damaged map output are read again",
        "shuffle/collected_blocks.py",
        before="self.epoch += record.generation",
        after="self.epoch += 0",
    ),
    _seen(
        "the winner deletes its own files",
        "shuffle/map_output.py",
        before="if winner.attempt != self._attempt:",
        after="if True:",
    ),
    _seen(
        "the result of a range is replaced",
        "batch/stage/range_results.py",
        before="if store.create(result_key(",
        after="if not store.put(result_key(",
    ),
    _seen(
        "a manifest names parts that are gone",
        "sinks/files.py",
        before="        self._refuse_damaged(summary.batch_number, messages)\n",
        after="",
    ),
    _seen(
        "cleanup deletes the batch that is open",
        "batch/commit/cleanup.py",
        before="return batch is not None and batch <= number",
        after="return batch is not None",
    ),
    _seen(
        "cleanup takes any batch for committed",
        "batch/commit/cleanup.py",
        before="    if commit is None:\n",
        after="    if commit is None and number < 0:\n",
    ),
    _seen(
        "a plan takes its number from a later look",
        "batch/open/new_batch.py",
        before="batch_number=view.next_number,\n",
        after="batch_number=session.checkpoint.look().next_number,\n",
    ),
    _seen(
        "a run takes the move of an operator for a batch of its own",
        "batch/plan/write_plan.py",
        before="if offset.move is not None:",
        after="if False:",
    ),
    _seen(
        "a reset only sets the cursor",
        "batch/ends/empty_end.py",
        before="if offset.move.outcome is BatchOutcome.RESET:",
        after="if False:",
    ),
    _seen(
        "a second pipeline delivers to a claimed path",
        "sinks/claim.py",
        before="if found is not None and found.owner != claim.owner:",
        after="if False:",
    ),
    _seen(
        "a second owner takes a checkpoint unasked",
        "checkpoint/ownership.py",
        before="if current is not None and current.writer.owner is not None and not takes_over:",
        after="if False:",
    ),
    _seen(
        "somebody writes to the checkpoint of another owner",
        "checkpoint/ownership.py",
        before="if current is not None and current.writer.owner not in (None, writer.owner):",
        after="if False:",
    ),
    _seen(
        "a sweep goes by the clock of its machine",
        "storage/clock.py",
        before="    return times[0]",
        after='    return __import__("icefloe.units").units.datetime.now(times[0].tzinfo)',
    ),
    _seen(
        "only the head is pinned",
        "iceberg/history/pins.py",
        before="wanted = {names.tag(snapshot_id): snapshot_id for snapshot_id in held.snapshot_ids}",
        after="wanted = {names.tag(snapshot_id): snapshot_id for snapshot_id in held.snapshot_ids[:1]}",
    ),
    _seen(
        "tags that are still needed are dropped",
        "iceberg/history/pins.py",
        before="old_tags=tuple(name for name in found.names if name not in wanted),",
        after="old_tags=tuple(found.names),",
    ),
    _seen(
        "moves of branches that come second are not made again",
        "iceberg/catalog/table_refs.py",
        before="except (CommitFailedException, CommitStateUnknownException) as cause:",
        after="except CommitStateUnknownException as cause:",
    ),
)
