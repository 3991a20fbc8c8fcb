"""The results of a batch's tasks, and the proof that they add up."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from icefloe.audit.sums import AuditError, Sums
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.phase_record import PhaseRecord, load_phases
from icefloe.batch.plan_document import Plan
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.stage.range_results import RangeResult
from icefloe.batch.stage.staged_changes import CHANGE_WEIGHTS
from icefloe.changes.columns import ChangeType
from icefloe.documents import load_document
from icefloe.errors import TransientError
from icefloe.flow import Phase, Route
from icefloe.shuffle.map_output_log import MissingMapOutputError
from icefloe.shuffle.map_output_record import MapOutputRecord
from icefloe.shuffle.ordinal_sums import OrdinalSums
from icefloe.sinks.manifest import CommitMessage

__all__ = ["FinishedTasks", "UnfinishedTasksError"]


class UnfinishedTasksError(TransientError):
    """Tasks of a batch have not finished, or their parts are gone. Facts: ``phase``, which runs only these again.

    Repeating commit alone does not help.
    """

    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTasks:
    """A batch whose tasks are all done.

    Attributes:
        records: commit records of the map tasks, by map id.
        results: results of the reduce ranges; empty if nothing was shuffled.
        messages: commit messages of the tasks that wrote to the sink.
        phases: records of the phases that left one.
    """

    plan: Plan
    records: Sequence[MapOutputRecord]
    results: Sequence[RangeResult]
    messages: Sequence[CommitMessage]
    phases: Sequence[PhaseRecord] = ()

    @classmethod
    def of(cls, folder: BatchFolder, *, delivers: bool = False) -> "FinishedTasks":
        """Reads the records of a batch's tasks.

        Args:
            folder: the files that its tasks pass to one another.
            delivers: True if the batch is staged, to be delivered to another sink.

        Raises:
            UnfinishedTasksError: a task has not finished yet.
        """
        plan = folder.plan
        records = _records(folder)
        results = _results(folder) if plan.route is Route.SHUFFLE else []
        messages = (
            [result.message for result in results]
            if plan.route is Route.SHUFFLE
            else [_message(record) for record in records]
        )
        phases = load_phases(folder.store, plan.route, delivers=delivers)
        return cls(plan=plan, records=records, results=results, messages=messages, phases=phases)

    @property
    def counts(self) -> dict[str, int]:
        """Changes by type, in lower case."""
        names = [each.name.lower() for each in ChangeType]
        return {name: sum(message.counts.get(name, 0) for message in self.messages) for name in names}

    @property
    def handed_on(self) -> Sums:
        """Sums of the rows that the map tasks handed on, by step, also if changes are net."""
        return _merged(record.ordinals for record in self.records)

    def audited(self) -> Sums:
        """Sums of the delivered changes, proven equal to the sums of the rows that the map tasks handed on.

        Raises:
            AuditError: the sums differ, or the sink was given other rows than those that were summed up.
        """
        what = f"batch {self.plan.batch_number} of {self.plan.pipeline}"
        delivered_sums = self.handed_on
        if self.plan.route is Route.SHUFFLE:
            delivered_sums = _merged(result.sums for result in self.results)
            delivered_sums.require(self.handed_on, what=what, per_ordinal=not self.plan.is_net)
        signed_count = sum(delivered_sums.signed_counts().values())
        # A second path: what the sink was given, as its messages count it, against what the tasks summed up.
        given = (
            sum(_signed_count(message.counts) for message in self.messages),
            sum(message.hash_sum for message in self.messages) % (1 << 128),
        )
        if given != (signed_count, delivered_sums.hash_sum()):
            raise AuditError(
                f"{what} does not add up at the sink: {signed_count} rows net with hash sum "
                f"{delivered_sums.hash_sum():032x} were delivered, but {given[0]} with {given[1]:032x} were written; "
                "the batch is not delivered, report this with the batch's folder",
                what=what,
            )
        return delivered_sums


def staging_phase(plan: Plan) -> Phase:
    """The phase whose tasks write to the sink. If map outputs are gone, shuffle_read makes them again too."""
    return Phase.SHUFFLE_READ if plan.route is Route.SHUFFLE else Phase.INSERT_ONLY


def _records(folder: BatchFolder) -> list[MapOutputRecord]:
    plan = folder.plan
    try:
        return folder.map_outputs.records(range(plan.num_map_tasks))
    except MissingMapOutputError as error:
        missing = error.map_ids
        phase = staging_phase(plan)
        raise UnfinishedTasksError(
            f"{len(missing)} of {plan.num_map_tasks} map tasks of batch {plan.batch_number} have no valid output (the "
            f"first: {missing[0]}); run again, or in Airflow clear {phase} and its downstream tasks: only those run "
            "again",
            phase=phase,
        ) from error


def _results(folder: BatchFolder) -> list[RangeResult]:
    ranges = [each.range_id for each in load_coalesce_plan(folder).ranges]
    found = RangeResult.load_all(folder.store, ranges)
    missing = [range_id for range_id, result in zip(ranges, found, strict=True) if result is None]
    if missing:
        phase = staging_phase(folder.plan)
        raise UnfinishedTasksError(
            f"{len(missing)} of {len(found)} ranges of batch {folder.plan.batch_number} have not been read (the first: "
            f"{missing[0]}); run again, or in Airflow clear {phase} and its downstream tasks: only those run again",
            phase=phase,
        )
    return [result for result in found if result is not None]


def _message(record: MapOutputRecord) -> CommitMessage:
    return load_document(
        CommitMessage, json.dumps(record.part).encode(), what=f"the part of commit record {record.map_id}"
    )


def _merged(sums: Iterable[Sequence[OrdinalSums]]) -> Sums:
    return Sums(each for of_task in sums for each in of_task)


def _signed_count(counts: Mapping[str, int]) -> int:
    return sum(weight * counts.get(kind.name.lower(), 0) for kind, weight in CHANGE_WEIGHTS.items())
