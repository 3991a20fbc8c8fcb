"""The bounds of a batch: the steps that fit into it, and the most bytes that it may read."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.summaries import file_bytes_bound
from icefloe.iceberg.scan.scan_tasks import ScanPlan, plan_scan_tasks
from icefloe.iceberg.step import Step
from icefloe.iceberg.table import Table
from icefloe.units import format_bytes

__all__ = ["refuse_large_scan"]


class ScanTooLargeError(TerminalError):
    """A batch would read more than ``max_scan_bytes``."""

    scan_bytes: int
    max_scan_bytes: int


def steps_within(table: Table, steps: Sequence[Step], *, max_bytes: int) -> int:
    """Number of leading steps that read at most ``max_bytes`` of files together, each file once; at least one.

    If the snapshots' summaries prove that all steps fit, no manifest is read.
    """
    if len(steps) < 2:
        return len(steps)
    bound = file_bytes_bound(History.of(table).snapshots, steps)
    if bound is not None and bound <= max_bytes:
        return len(steps)

    return leading_within(_new_bytes(plan_scan_tasks(table, steps), steps), max_bytes=max_bytes)


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


def refuse_large_scan(scan_bytes: int, *, max_scan_bytes: int | None, batch: str) -> None:
    """Stops a batch that would read too much, before anything of it is recorded.

    Args:
        scan_bytes: bytes of all files that the batch would read.
        max_scan_bytes: ``max_scan_bytes`` of the pipeline; None: no limit.
        batch: its name in the sentence.

    Raises:
        ScanTooLargeError: the batch would read more; the error has both numbers.
    """
    if max_scan_bytes is None or scan_bytes <= max_scan_bytes:
        return
    raise ScanTooLargeError(
        f"{batch} would read {scan_bytes:,} bytes of files ({format_bytes(scan_bytes)}), and max_scan_bytes is "
        f"{max_scan_bytes:,} ({format_bytes(max_scan_bytes)}): raise max_scan_bytes, or make batches smaller by "
        "max_steps_per_batch or max_bytes_per_batch",
        scan_bytes=scan_bytes,
        max_scan_bytes=max_scan_bytes,
    )
