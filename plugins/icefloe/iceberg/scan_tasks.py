"""Scan tasks: each data file of a batch once, with the weights its rows have in the steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_files import Partition
from icefloe.iceberg.history import History
from icefloe.iceberg.manifest_entries import DataEntry
from icefloe.iceberg.manifests import ManifestReader
from icefloe.iceberg.step import Step, StepKind
from icefloe.iceberg.step_files import FileChange, StepFiles

__all__ = ["ScanPlan", "ScanTask", "plan_scan_tasks", "scan_tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """One data file to read, and what its rows count for.

    Attributes:
        data_file: the part that goes into documents.
        weights: (change ordinal, weight), by ordinal, no weight 0: +1 where the step adds the file, -1 where it removes
            it. Every row of the file has them.
        partition: spec id and partition values: files of one partition probably hold the same rows.
        lower_bounds: by field id, in the spec's binary single-value form, perhaps cut; for the planner only.
        upper_bounds: the same.
    """

    data_file: DataFile
    weights: tuple[tuple[int, int], ...]
    partition: Partition
    lower_bounds: Mapping[int, bytes] = field(repr=False, default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(repr=False, default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """What a batch reads.

    Attributes:
        tasks: each data file once, in the order of the steps and manifests that name it first; one that the table lists
            repeatedly, as often.
        warnings: one sentence each.
        manifests_read: how many manifests were opened for it.
    """

    tasks: tuple[ScanTask, ...]
    warnings: tuple[str, ...] = ()
    manifests_read: int = 0

    @property
    def inserts_only(self) -> bool:
        """Whether no step removes a row: nothing can cancel, so nothing needs to meet."""
        return all(weight > 0 for task in self.tasks for _, weight in task.weights)

    @property
    def file_size_bytes(self) -> int:
        """The size of all files."""
        return sum(task.data_file.file_size_bytes for task in self.tasks)

    @property
    def record_count(self) -> int:
        """The rows of all files, each file once."""
        return sum(task.data_file.record_count for task in self.tasks)


def plan_scan_tasks(table: Table, steps: Sequence[Step]) -> ScanPlan:
    """The data files that tell the changes of ``steps``; reads manifests only.

    Args:
        table: as loaded; has the snapshots that the steps name.
        steps: of one batch.

    Raises:
        DeleteFileInForceError: a step adds or removes a delete file, or one is in force on a file that must be read.
        UnknownSnapshotError: a step's snapshot expired since the steps were planned.
        TerminalError: a manifest is gone or damaged.
        TransientError: the store did not answer.
    """
    history, reader = History.of(table), ManifestReader(table)
    _read_manifest_lists(steps, history, reader)
    files = StepFiles(history, reader)
    tasks = scan_tasks((step.change_ordinal, files.changes(step)) for step in steps)
    return ScanPlan(tasks=tasks, warnings=tuple(files.warnings), manifests_read=reader.manifests_read)


def scan_tasks(changes_by_ordinal: Iterable[tuple[int, Iterable[FileChange]]]) -> tuple[ScanTask, ...]:
    """The tasks that read every changed file once; one that the table lists more than once, as often."""
    entries: dict[str, DataEntry] = {}
    weights: dict[str, dict[int, int]] = {}
    for ordinal, changes in changes_by_ordinal:
        for change in changes:
            path = change.entry.data_file.path
            entries.setdefault(path, change.entry)
            if change.entry.data_file.first_row_id is not None:
                entries[path] = change.entry
            by_ordinal = weights.setdefault(path, {})
            by_ordinal[ordinal] = by_ordinal.get(ordinal, 0) + change.weight
    return tuple(
        ScanTask(
            data_file=entry.data_file,
            weights=ones,
            partition=entry.partition,
            lower_bounds=entry.lower_bounds,
            upper_bounds=entry.upper_bounds,
        )
        for path, entry in entries.items()
        for ones in _in_ones(weights[path])
    )


def _in_ones(weights: Mapping[int, int]) -> Iterator[tuple[tuple[int, int], ...]]:
    """The weights of one file as sums of +1 and -1: more than one of them where the table lists the file repeatedly."""
    most = max(map(abs, weights.values()))
    for size in range(most):
        yield tuple((o, 1 if weight > 0 else -1) for o, weight in sorted(weights.items()) if abs(weight) > size)


def _read_manifest_lists(steps: Iterable[Step], history: History, reader: ManifestReader) -> None:
    # The start of a commit may expire while its batch is open: only a comparison of states needs it.
    starts = {step.start_snapshot_id for step in steps if step.kind is StepKind.STATES} - {None}
    needed = starts | {snapshot_id for step in steps for snapshot_id in step.snapshot_ids}
    reader.in_parallel(
        reader.manifests, [history.snapshot(snapshot_id) for snapshot_id in needed if snapshot_id is not None]
    )
