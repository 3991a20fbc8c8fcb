"""The number of reduce partitions of a shuffle."""

from dataclasses import dataclass
from typing import Final

from icefloe.units import format_bytes

MAX_PARTITIONS: Final = 4096
_MIN_PARTITIONS: Final = 64


_ROWS_PER_HASH_PARTITION: Final = 1 << 20
"""At most 44 MB of hash rows, unless rows are changed several times."""
_MAX_HASH_PARTITIONS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCount:
    """The number of reduce partitions and the reason for it."""

    num_partitions: int
    reason: str


def partition_count(configured: int | None, *, cores: int, input_bytes: int, target_size_bytes: int) -> PartitionCount:
    """The number of reduce partitions of a batch: as configured, or enough for the cores and the bytes.

    Args:
        configured: ``shuffle.partitions``; None for ``auto``.
        cores: cores of the Spark master or configuration, or of this machine.
        input_bytes: file bytes that all map tasks read; no more can survive consolidation.
        target_size_bytes: bytes that a reduce range should hold.

    >>> partition_count(None, cores=2, input_bytes=10**6, target_size_bytes=2**26).num_partitions
    64
    >>> partition_count(None, cores=2, input_bytes=2**40, target_size_bytes=2**26).reason
    'auto: 1.0 TiB of input in ranges of 64.0 MiB, rounded up to a power of two, at most 4096'
    """
    if configured is not None:
        return PartitionCount(num_partitions=configured, reason="shuffle.partitions of the pipeline")
    for_cores = max(_MIN_PARTITIONS, 10 * cores)
    for_bytes = -(-input_bytes // target_size_bytes)
    why = f"{cores} cores, at least {_MIN_PARTITIONS}"
    if for_bytes > for_cores:
        why = f"{format_bytes(input_bytes)} of input in ranges of {format_bytes(target_size_bytes)}"
    rounded = 1 << (max(for_cores, for_bytes) - 1).bit_length()
    return PartitionCount(
        num_partitions=min(MAX_PARTITIONS, rounded),
        reason=f"auto: {why}, rounded up to a power of two, at most {MAX_PARTITIONS}",
    )


def hash_partition_count(input_rows: int) -> int:
    """The number of hash partitions of a batch whose map tasks read that many rows.

    A small batch has one, because each is a block of each map output.

    >>> [hash_partition_count(rows) for rows in (0, 10**6, 10**8, 10**10)]
    [1, 1, 128, 256]
    """
    wanted = max(1, -(-input_rows // _ROWS_PER_HASH_PARTITION))
    return min(_MAX_HASH_PARTITIONS, 1 << (wanted - 1).bit_length())
