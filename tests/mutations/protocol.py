"""Mutations of the protocol: each switches off one guard that keeps runs, pipelines and zombies apart."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["PROTOCOL"]

_STOPPED: Final = ("tests/faults/test_stopped_runs.py",)

PROTOCOL: Final = (
    Mutation(
        name="a batch may follow another end than that of the batch before",
        path="checkpoint/record_order.py",
        before="if record.follows != ended:",
        after="if False:",
        suite=("tests/checkpoint/test_log.py",),
    ),
    Mutation(
        name="a plan takes its number from a later look than its cursor",
        path="batch/open/new_batch.py",
        before="batch_number=view.next_number,\n",
        after="batch_number=session.checkpoint.look().next_number,\n",
        suite=_STOPPED,
    ),
    Mutation(
        name="a cursor is judged by a table that was loaded before it",
        path="batch/open/next_batch.py",
        before="session.with_fresh_table().with_cursor(view.cursor)",
        after="session.with_cursor(view.cursor)",
        suite=_STOPPED,
    ),
    Mutation(
        name="a plan is run whatever its checksum",
        path="batch/context/batch_folder.py",
        before="    if plan.crc32 is not None and plan.crc32 != fields_crc32(json.loads(data)):",
        after="    if False:",
        suite=("tests/batch/plan/test_planned_again.py",),
    ),
    Mutation(
        name="what a zombie writes stays behind",
        path="batch/fenced_store.py",
        before="if is_over():",
        after="if False:",
        suite=("tests/batch/test_late_runs.py",),
    ),
    Mutation(
        name="a late run ends with the error that it stumbled over",
        path="batch/ends/already_finished.py",
        before="if not isinstance(error, BatchCommittedError) and not _is_over(reference, error):",
        after="if True:",
        suite=("tests/batch/test_late_runs.py",),
    ),
    Mutation(
        name="the plan of another batch is adopted",
        path="batch/plan/recorded_plan.py",
        before="if not is_own:",
        after="if False:",
        suite=("tests/batch/test_isolation.py",),
    ),
    Mutation(
        name="pipelines of one name share their shuffle folder",
        path="batch/context/session.py",
        before="if offset.checkpoint_id is not None:",
        after="if False:",
        suite=("tests/batch/test_isolation.py",),
    ),
    Mutation(
        name="a plan that was lost is made again for other cores",
        path="batch/plan/make_plan.py",
        before="cores=spec.cores or cores,\n        input_bytes",
        after="cores=cores,\n        input_bytes",
        suite=("tests/batch/test_isolation.py",),
    ),
    Mutation(
        name="a task takes any document that has its name",
        path="batch/context/batch_folder.py",
        before="if digests and digest_of(data) != digests[map_id]:",
        after="if False:",
        suite=("tests/batch/plan/test_planned_again.py",),
    ),
    Mutation(
        name="another owner may commit",
        path="checkpoint/ownership.py",
        before="if current is not None and current.writer.owner not in (None, writer.owner):",
        after="if False:",
        suite=("tests/checkpoint/test_ownership.py",),
    ),
    Mutation(
        name="a plan that was stopped opens the next batch with the range of the one before",
        path="batch/open/new_batch.py",
        before="batch_number=view.next_number,\n",
        after="batch_number=session.checkpoint.look().next_number,\n",
        further=(Edit(path="checkpoint/record_order.py", before="if record.follows != ended:", after="if False:"),),
        suite=_STOPPED,
    ),
    Mutation(
        name="what a stopped run writes stays behind",
        path="batch/fenced_store.py",
        before="if is_over():",
        after="if False:",
        suite=_STOPPED,
    ),
    Mutation(
        name="a stopped run ends with the error that it stumbled over",
        path="batch/ends/already_finished.py",
        before="if not isinstance(error, BatchCommittedError) and not _is_over(reference, error):",
        after="if True:",
        suite=_STOPPED,
    ),
    Mutation(
        name="verify does not see a load that was delivered twice",
        path="batch/verify/continuity.py",
        before="if not _follows(ended, batch) and not _is_reload(checkpoint.offset(batch.batch_number)):",
        after="if False:",
        suite=("tests/batch/verify/test_continuity.py",),
    ),
)
