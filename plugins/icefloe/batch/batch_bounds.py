"""The bounds of a batch: how many of its steps fit, and whether it may be read at all."""

from bisect import bisect_right
from collections.abc import Sequence

from icefloe.errors import TerminalError
from icefloe.iceberg.scan_tasks import plan_scan_tasks
from icefloe.iceberg.step import Step
from icefloe.iceberg.summaries import file_bytes_bound
from icefloe.iceberg.table import Table
from icefloe.units import format_bytes

__all__ = ["ScanTooLargeError", "refuse_large_scan", "steps_within"]


class ScanTooLargeError(TerminalError):
    """A batch would read more than ``max_scan_bytes``; carries ``scan_bytes`` and ``max_scan_bytes``."""


def steps_within(table: Table, steps: Sequence[Step], *, max_bytes: int) -> int:
    """How many of the first steps read at most ``max_bytes`` of files together, each file once; at least one.

    Where the snapshots' summaries prove that all fit, no manifest is read.
    """
    if len(steps) < 2:
        return len(steps)
    bound = file_bytes_bound(table, steps)
    if bound is not None and bound <= max_bytes:
        return len(steps)

    def file_bytes(count: int) -> int:
        return plan_scan_tasks(table, steps[:count]).file_size_bytes

    if file_bytes(len(steps)) <= max_bytes:
        return len(steps)
    return bisect_right(range(2, len(steps)), max_bytes, key=file_bytes) + 1


def refuse_large_scan(scan_bytes: int, *, max_scan_bytes: int | None, batch: str) -> None:
    """Stops a batch that would read too much, before anything of it is recorded.

    Args:
        scan_bytes: of all files that it would read.
        max_scan_bytes: of the pipeline; None: no limit.
        batch: its name in the sentence.

    Raises:
        ScanTooLargeError: with both numbers.
    """
    if max_scan_bytes is None or scan_bytes <= max_scan_bytes:
        return
    raise ScanTooLargeError(
        f"{batch} would read {scan_bytes:,} bytes of files ({format_bytes(scan_bytes)}), and max_scan_bytes is "
        f"{max_scan_bytes:,} ({format_bytes(max_scan_bytes)}): raise max_scan_bytes, or have smaller batches by "
        "max_steps_per_batch or max_bytes_per_batch",
        scan_bytes=scan_bytes,
        max_scan_bytes=max_scan_bytes,
    )
