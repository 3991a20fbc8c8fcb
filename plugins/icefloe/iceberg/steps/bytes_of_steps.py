"""The bytes that steps read, and how many steps one batch has room for."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.summaries import file_bytes_bound
from icefloe.iceberg.scan.scan_tasks import ScanPlan, plan_scan_tasks
from icefloe.iceberg.step import Step


def steps_within(table: LoadedTable, steps: Sequence[Step], *, max_bytes: int) -> int:
    """Number of leading steps that read at most ``max_bytes`` of files together, each file once; at least one.

    If the snapshots' summaries prove that all steps fit, no manifest is read.
    """
    if len(steps) < 2 or surely_fit(table, steps, max_bytes=max_bytes):
        return len(steps)
    return leading_within(_new_bytes(plan_scan_tasks(table, steps), steps), max_bytes=max_bytes)


def surely_fit(table: LoadedTable, steps: Sequence[Step], *, max_bytes: int) -> bool:
    """True if the snapshots' summaries prove that steps read at most ``max_bytes``."""
    bound = file_bytes_bound(table.history.snapshots, steps)
    return bound is not None and bound <= max_bytes


def leading_within(sizes: Iterable[int], *, max_bytes: int) -> int:
    """Number of leading sizes that add up to at most ``max_bytes``; at least one.

    >>> leading_within([3, 4, 5], max_bytes=7), leading_within([3, 4, 5], max_bytes=1)
    (2, 1)
    """
    return max(1, sum(total <= max_bytes for total in accumulate(sizes)))


def _new_bytes(scan: ScanPlan, steps: Sequence[Step]) -> Iterable[int]:
    """Bytes of the files that each step reads and no earlier step does."""
    sizes = {step.change_ordinal: 0 for step in steps}
    first_steps: dict[int, int] = {}
    # A file counts for the first step that reads it: terms come in the order of the steps.
    for task in scan.tasks:
        sizes[task.terms[0].change_ordinal] += task.data_file.file_size_bytes
        for term in task.terms:
            for number in term.delete_files:
                first_steps[number] = min(term.change_ordinal, first_steps.get(number, term.change_ordinal))
    for number, ordinal in first_steps.items():
        sizes[ordinal] += scan.delete_files[number].size_bytes
    return sizes.values()
