"""A small table on SQLite, a pipeline over it, and its batches run phase by phase or at once.

    workshop = Workshop.create(tmp_path)          # or the fixture of that name
    workshop.append([1, 2, 3])
    report = workshop.deliver()                   # plan to cleanup; None when there was nothing to do
    batch = workshop.open()                       # only planned: run(Phase...), coalesce(), commit(), clean_up()

``import`` as ``from support.pipelines.workshop import ...``.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.context.batch_folder import BatchFolder, MapInputs
from icefloe.batch.context.references import BatchReference, table_files
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.deliver.commit_batch import clean_up_finished, commit_batch
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.phase_record import Engine
from icefloe.batch.phases import run_coalesce, run_phase
from icefloe.batch.plan.open_and_plan import OpenedBatch, open_and_plan
from icefloe.batch.plan_document import Plan, split_plan_url
from icefloe.batch.reduce.coalesce_map_outputs import Coalesced
from icefloe.batch.report import BatchReport
from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.flow import Phase, Route
from icefloe.iceberg.catalog.confined_io import TableAccess
from icefloe.iceberg.step import Step, StepKind
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from support.spark.row_counts import Row, difference, rows_of, weights_of
from support.tables.events import NAME, EventsTable, write_pipeline_file

if TYPE_CHECKING:
    from support.nodes.machines_in_turn import MachinesInTurn

__all__ = ["InOrder", "OpenBatch", "Workshop", "typed_changes"]


class InOrder:
    """An engine of this thread that remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[list[int]] = []

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        self.given.append(list(numbers))
        return [function(number) for number in numbers]


@dataclass(frozen=True, kw_only=True)
class Workshop(EventsTable):
    """The table ``db.events``, a pipeline file over it, and the folders around them.

    Attributes:
        keys: of the pipeline file.
        machines: run its tasks and keep its map outputs; None: this thread runs them, the storage keeps the outputs.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    machines: "MachinesInTurn | None" = None

    def set(self, **keys: Any) -> Self:
        """Edits the pipeline file; a key of None leaves it."""
        self.keys.update(keys)
        return self

    def in_tasks(self, files: int, *, partitions: int = 4) -> Self:
        """Files of 50 rows, delivered, then one row of each updated: each a map task, each partition a range."""
        for start in range(0, 50 * files, 50):
            self.append(range(start, start + 50))
        self.deliver()
        self.update([1, 60, 110][:files], value=2.0)
        return self.set(shuffle={"map_task_bytes": 1, "partitions": partitions, "target_size_bytes": 1})

    append, update, delete = EventsTable.add, EventsTable.change, EventsTable.remove

    def snapshot_ids(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.table.refresh().metadata.snapshots]

    def state(self, snapshot_id: int | None) -> Counter[Row]:
        if snapshot_id is None:
            return Counter()
        return rows_of(self.table.scan(snapshot_id=snapshot_id).to_arrow())

    @property
    def storage(self) -> Path:
        """Checkpoint and shuffle files."""
        return self.folder / "storage"

    def session(self, credentials: Credentials | None = None) -> PipelineSession:
        pipeline = Pipeline.load(self.pipeline_file())
        return PipelineSession.open(pipeline, credentials=credentials or Credentials(), environ=os.environ)

    def pipeline_file(self) -> Path:
        return write_pipeline_file(
            self.folder / f"{NAME}.yaml",
            tables=self.folder,
            storage=self.storage,
            output=self.folder / "changes",
            keys=self.keys if self.machines is None else {**self.keys, "shuffle": self._shuffle_over_nodes()},
        )

    def _shuffle_over_nodes(self) -> dict[str, Any]:
        return {"transfer": "nodes", **(self.keys.get("shuffle") or {})}

    def prepare(self, request: RequestedRange | None = None, **options: Any) -> OpenedBatch:
        return open_and_plan(self.session(), request, **options)

    def open(self, request: RequestedRange | None = None, **options: Any) -> "OpenBatch":
        return OpenBatch.of(self.prepare(request, **options), self.machines)

    def deliver(self, request: RequestedRange | None = None, **options: Any) -> BatchReport | None:
        """A whole batch."""
        opened = self.prepare(request, **options)
        return None if opened.plan is None else OpenBatch.of(opened, self.machines).deliver()

    def changes(self, batch: int = 0, *, backfill_id: str | None = None) -> pa.Table:
        """The files in the manifest of a batch, in the order of delivery."""
        place = "" if backfill_id is None else f"/_backfills/{backfill_id}"
        sink = ChangeFiles(open_store(f"file://{self.folder}/changes{place}"))
        parts = sink.manifest(batch).parts
        batches = [found for part in parts for found in sink.read_part(batch, part)]
        return pa.Table.from_batches(batches) if batches else pa.table({})

    def stored_objects(self) -> dict[str, bytes]:
        """Everything icefloe keeps, by path, but how long phases took."""
        folders = [self.storage, self.folder / "changes"]
        paths = [path for each in folders for path in each.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in paths if path.parent.name != "phases"}

    def require_exact(self, plan: Plan, changes: pa.Table) -> None:
        """Each step's changes are the difference of its states, and pair as the rule says."""
        identity = [changes.column_names.index(name) - 5 for name in plan.spec.identity.columns] if changes else None
        for step in plan.spec.steps:
            expected = self.step_weights(step)
            here = changes.filter(pc.equal(changes["_change_ordinal"], step.change_ordinal)) if changes else changes
            if here.num_rows == 0:
                assert expected == {}
                continue
            assert weights_of(here) == expected
            assert Counter(here["_change_type"].to_pylist()) == typed_changes(expected, identity or None)
            assert set(here["_commit_snapshot_id"].to_pylist()) == {step.commit_snapshot_id}

    def step_weights(self, step: Step) -> Counter[Row]:
        start = None if step.kind is StepKind.INITIAL else step.start_snapshot_id
        return difference(self.state(start), self.state(step.end_snapshot_id))


@dataclass(frozen=True, kw_only=True)
class OpenBatch:
    """A planned batch, as the tasks of the DAG see it."""

    plan: Plan
    plan_url: str
    settings: RunSettings
    credentials: Credentials = field(default_factory=Credentials)
    machines: "MachinesInTurn | None" = None

    @classmethod
    def of(cls, opened: OpenedBatch, machines: "MachinesInTurn | None" = None) -> Self:
        assert opened.plan is not None
        assert opened.reference is not None
        return cls(
            plan=opened.plan, plan_url=opened.reference.plan_url, settings=opened.reference.settings, machines=machines
        )

    def edited(self, **keys: Any) -> Self:
        """The batch whose next tasks find other keys in the pipeline file; ``memory_bytes`` is one of ``shuffle``."""
        pipeline = self.settings.pipeline
        if memory_bytes := keys.pop("memory_bytes", None):
            keys["shuffle"] = replace(pipeline.shuffle, memory_bytes=memory_bytes)
        return replace(self, settings=replace(self.settings, pipeline=replace(pipeline, **keys)))

    @property
    def folder(self) -> Path:
        """The files that pass between its phases."""
        return Path(split_plan_url(self.plan_url).removeprefix("file://"))

    @property
    def reference(self) -> BatchReference:
        return BatchReference(plan_url=self.plan_url, credentials=self.credentials, settings=self.settings)

    @property
    def files(self) -> TableAccess:
        return table_files(self.reference)

    @property
    def running(self) -> RunningBatch:
        return self.reference.open()

    @property
    def inputs(self) -> MapInputs:
        return MapInputs.of(self.running.folder, self.files)

    @property
    def batch_folder(self) -> BatchFolder:
        return self.running.folder

    @property
    def store(self) -> Store:
        return self.batch_folder.store

    def run(self, phase: Phase, engine: Engine | None = None) -> None:
        run_phase(phase, self.reference, engine or self.machines or InOrder())

    def coalesce(self) -> Coalesced:
        return run_coalesce(self.reference)

    def run_route(self) -> Self:
        """Everything between plan and commit."""
        if self.plan.route is Route.INSERT_ONLY:
            self.run(Phase.INSERT_ONLY)
        elif self.plan.route is Route.SHUFFLE:
            self.run(Phase.SHUFFLE_WRITE)
            self.coalesce()
            self.run(Phase.SHUFFLE_READ)
        return self

    def commit(self) -> BatchReport:
        return commit_batch(self.running)

    def clean_up(self) -> int:
        return clean_up_finished(self.reference)

    def deliver(self) -> BatchReport:
        report = self.run_route().commit()
        self.clean_up()
        return report


def typed_changes(weights: Mapping[Row, int], identity: Sequence[int] | None) -> Counter[str]:
    """The number of changes of each type: per identity as many pairs as there are deletes and inserts both."""
    deletes: Counter[Row] = Counter()
    inserts: Counter[Row] = Counter()
    for row, weight in weights.items():
        key = row if identity is None else tuple(row[position] for position in identity)
        (inserts if weight > 0 else deletes)[key] += abs(weight)
    pairs = 0 if identity is None else sum((deletes & inserts).values())
    counts = {
        "DELETE": sum(deletes.values()) - pairs,
        "INSERT": sum(inserts.values()) - pairs,
        "UPDATE_BEFORE": pairs,
        "UPDATE_AFTER": pairs,
    }
    return Counter({name: count for name, count in counts.items() if count})
