"""A pipeline that follows the table while its history happens: batches cut wherever the history says ``deliver``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa

from histories.bench import Bench
from histories.check import Question, WrongChangesError, check_changes
from histories.trace import ExpectedStep
from icefloe.batch.report import BatchReport
from icefloe.batch.verify.verify_batches import verify_batches
from support.nodes.machines_in_turn import MachinesInTurn
from support.pipelines.workshop import Workshop

__all__ = ["Deliveries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """One pipeline and the batches it committed.

    Attributes:
        bench: whose table it follows.
        workshop: the pipeline's files.
        reports: of its batches.
        expired: the snapshots that were gone when the first of them was planned.
    """

    bench: Bench
    workshop: Workshop
    reports: list[BatchReport] = field(default_factory=list)
    expired: set[int] = field(default_factory=set)

    @classmethod
    def begin(cls, bench: Bench, folder: Path, random: Random, machines: MachinesInTurn | None = None) -> Deliveries:
        """A pipeline with settings that the seed chooses."""
        keys = {
            "catalog": dict(bench.catalog_properties()),
            "table": bench.identifier,
            "identifier_columns": ["k"] if random.random() < 0.5 else None,
            "changes": "net" if random.random() < 0.3 else None,
            "initial_load": random.choice(("full", "from_earliest")),
            "on_gap": "reload",
            "max_steps_per_batch": random.choice((1, 2, None)),
            "max_bytes_per_batch": random.choice((1, 3000, None, None)),
            "shuffle": random.choice((None, {"partitions": 3, "target_size_bytes": 1, "map_task_bytes": 1})),
        }
        if machines:
            keys["shuffle"] = {"partitions": 3, "target_size_bytes": 1, "map_task_bytes": 1}
        folder.mkdir(exist_ok=True)
        workshop = Workshop(folder=folder, table=bench.table(), machines=machines).set(**keys)
        return cls(bench=bench, workshop=workshop)

    def catch_up(self) -> None:
        """Deliver batches until there is nothing left to do; none once its identity is gone."""
        if self._has_lost_its_identity():
            return
        if not self.reports:
            present = {each.snapshot_id for each in self.bench.table().metadata.snapshots}
            self.expired.update(self.bench.trace.snapshots.keys() - present)
        with ExitStack() as stack:
            if self.workshop.machines:
                stack.enter_context(self.workshop.machines.reading())
            while report := self.workshop.deliver():
                self.reports.append(report)

    def _has_lost_its_identity(self) -> bool:
        """True if columns of its file, or identifier columns of the table, are gone."""
        schema = self.bench.table().schema()
        if named := self.workshop.keys["identifier_columns"]:
            return not set(named) <= {each.name for each in schema.fields}
        first = self.reports[0].batch.up_to_snapshot_id if self.reports else None
        identifiers = set() if first is None else set(self.bench.trace.schemas[first].identifier_field_ids)
        return not identifiers <= {each.field_id for each in schema.fields}

    def check(self) -> int:
        """Hold each batch to its steps, and all of them to `verify_batches`; how many changes there were.

        Raises:
            WrongChangesError: what differs.
        """
        changes = 0
        parts: list[tuple[BatchReport, pa.Table]] = []
        for report in self.reports:
            found = self.workshop.changes(report.batch.batch_number)
            changes += found.num_rows
            parts.append((report, found))
            if self._is_complete(report):
                present = [table for _, table in parts if table.num_rows]
                self._check_batch(parts[0][0], pa.concat_tables(present) if present else found)
                parts = []
        if parts:
            raise WrongChangesError(f"the load that batch {parts[0][0].batch_number} began is not complete")
        sentences = verify_batches(self.workshop.session()).sentences if self.reports else ()
        if sentences:
            raise WrongChangesError(f"verify: {'; '.join(sentences)}, pipeline {self.workshop.keys}")
        return changes

    def _is_complete(self, report: BatchReport) -> bool:
        """True if a batch is no part of a load, or its last one."""
        commit = self.workshop.session().checkpoint.committed(report.batch.batch_number)
        assert commit is not None
        return commit.load_part is None or commit.load_part.is_last

    def _check_batch(self, report: BatchReport, found: pa.Table) -> None:
        up_to = report.batch.up_to_snapshot_id
        assert up_to is not None
        question = Question(
            after=report.batch.after_snapshot_id,
            up_to=up_to,
            identifier_columns=tuple(self.workshop.keys["identifier_columns"] or ()),
            net=report.changes == "net",
            row_ids=self.bench.table().metadata.format_version >= 3,
            only_sum=self.bench.applied["expire"] > 0 and report.batch.after_snapshot_id not in self._lineage(up_to),
        )
        steps = self._steps(report, up_to)
        schema = self.bench.trace.schemas[up_to]
        try:
            if len(steps) != report.batch.steps and not question.only_sum:
                raise WrongChangesError(f"{report.batch.steps} steps instead of {len(steps)}")
            found = found.drop_columns("_batch") if found.num_rows else _nothing([each.name for each in schema.fields])
            check_changes(found, steps, self.bench.states, schema, question)
        except WrongChangesError as wrong:
            raise WrongChangesError(
                f"batch {report.batch.batch_number}: {wrong}, pipeline {self.workshop.keys}"
            ) from None

    def _lineage(self, up_to: int) -> list[int | None]:
        return [None, *self.bench.trace.lineage(up_to)]

    def _steps(self, report: BatchReport, up_to: int) -> list[ExpectedStep]:
        trace = self.bench.trace
        if report.batch.after_snapshot_id is not None:
            steps = trace.steps(report.batch.after_snapshot_id, up_to)
            assert steps is not None
            return steps
        if report.batch.batch_number or self.workshop.keys["initial_load"] == "full":
            return [self._load(up_to)]
        lineage = trace.lineage(up_to)
        expired = [each for each in lineage if each in self.expired]
        if not expired:
            return trace.steps(None, up_to) or []
        earliest = lineage[lineage.index(expired[-1]) + 1]
        return [self._load(earliest), *(trace.steps(earliest, up_to) or [])]

    def _load(self, snapshot_id: int) -> ExpectedStep:
        timestamp_ms = self.bench.trace.snapshots[snapshot_id].timestamp_ms
        return ExpectedStep(
            start=None, end=snapshot_id, commit_snapshot_ids=frozenset([snapshot_id]), timestamp_ms=timestamp_ms
        )


def _nothing(names: list[str]) -> pa.Table:
    metadata = ["_change_type", "_change_ordinal", "_commit_snapshot_id", "_commit_timestamp"]
    return pa.table({name: [] for name in [*metadata, *names]})
