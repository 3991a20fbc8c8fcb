"""Mutations of verify: each switches off the check of one promise that the output makes."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["PROMISES"]

_PROMISES: Final = ("tests/audit", "tests/batch/test_verify_promises.py")
_VERIFY: Final = ("tests/batch/verify/test_verify_batches.py",)
_CONTINUITY: Final = ("tests/batch/verify/test_continuity.py",)

PROMISES: Final = (
    Mutation(
        name="verify does not see a change of no known type",
        path="audit/change_promises.py",
        before="if (types < 0).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see rows of another batch",
        path="audit/change_promises.py",
        before="if pc.sum(pc.not_equal(changes.column(BATCH), self._batch_number)).as_py() or",
        after="if",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see rows of no batch",
        path="audit/change_promises.py",
        before=" or changes.column(BATCH).null_count:",
        after=":",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see an ordinal without a step",
        path="audit/change_promises.py",
        before="if not inside.all():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see an ordinal below 0",
        path="audit/change_promises.py",
        before="inside = (ordinals >= 0) & (ordinals",
        after="inside = (ordinals",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see the snapshot or time of another step",
        path="audit/change_promises.py",
        before="if (values[inside] != expected[known_ordinals]).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see a before image alone",
        path="audit/change_promises.py",
        before="if (befores[:-1] & ~afters).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see an after image alone",
        path="audit/change_promises.py",
        before="if (~befores[:-1] & afters).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see two images of different steps",
        path="audit/change_promises.py",
        before="if (befores[:-1] & afters & (before_ordinals != ordinals)).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see a before image at the end of a part",
        path="audit/change_promises.py",
        before="        if self._is_after_before:\n",
        after="        if False:\n",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify forgets a before image at the end of some rows",
        path="audit/change_promises.py",
        before="self._is_after_before, self._last_ordinal = bool(befores[-1]), int(ordinals[-1])",
        after="self._is_after_before, self._last_ordinal = False, int(ordinals[-1])",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not compare counts with the manifest",
        path="audit/change_promises.py",
        before="if read != {name: counts.get(name, 0) for name in read}:",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see an identity in two places",
        path="audit/identity_order.py",
        before="if ((high[1:] == high[:-1]) & (low[1:] == low[:-1])).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify takes neighbours in two parts for one place",
        path="audit/identity_order.py",
        before="        self._last = None\n\n    def faults",
        after="        pass\n\n    def faults",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see changes out of order",
        path="audit/identity_order.py",
        before="if (~is_new[1:] & (ordinals[1:] < ordinals[:-1])).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see changes out of order across batches of rows",
        path="audit/identity_order.py",
        before="if not is_new[0] and ordinals[0] < ordinal:",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see an update that is a delete and an insert",
        path="audit/identity_order.py",
        before="if (by_step == _DELETED | _INSERTED).any():",
        after="if False:",
        suite=_PROMISES,
    ),
    Mutation(
        name="verify does not see a part with other rows than its manifest says",
        path="batch/verify/schema_run_replay.py",
        before="if (rows, hash_sum) == (part.rows, part.hash_sum):",
        after="if True:",
        suite=_VERIFY,
    ),
    Mutation(
        name="verify counts no row that differs",
        path="batch/verify/schema_run_replay.py",
        before="        if not differing_rows:\n",
        after="        if True:\n",
        suite=_VERIFY,
    ),
    Mutation(
        name="verify does not read the end state",
        path="batch/verify/schema_run_replay.py",
        before="end.add_to(replay, sign=-1)",
        after="start.add_to(replay, sign=-1)",
        suite=_VERIFY,
    ),
    Mutation(
        name="verify replays a pipeline that was edited since",
        path="batch/verify/verify_batches.py",
        before="    if recorded is not None:\n",
        after="    if False:\n",
        suite=_VERIFY,
    ),
    Mutation(
        name="verify reads columns of another schema as its own",
        path="batch/verify/schema_run_replay.py",
        before="if found.names != self._schema.names:",
        after="if False:",
        suite=_VERIFY,
    ),
    Mutation(
        name="verify does not mention files that no manifest names",
        path="batch/verify/schema_run_replay.py",
        before="        if count:\n",
        after="        if False:\n",
        suite=(*_VERIFY, *_PROMISES),
    ),
    Mutation(
        name="verify does not look whether batches follow one another",
        path="batch/verify/verify_batches.py",
        before="            *breaks_between(session.checkpoint, committed_batches(session)),\n",
        after="",
        suite=_CONTINUITY,
    ),
    Mutation(
        name="verify takes any second load for one that was asked for",
        path="batch/verify/continuity.py",
        before="return offset is not None and offset.spec.is_reload",
        after="return True",
        suite=_CONTINUITY,
    ),
    Mutation(
        name="verify does not see a part of a load twice",
        path="batch/verify/continuity.py",
        before="is_next = part is not None and part.first_file == ended.load_part.stop_file",
        after="is_next = part is not None",
        suite=_CONTINUITY,
    ),
)
