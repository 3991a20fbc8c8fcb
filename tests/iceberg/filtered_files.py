"""Data files of two rows that only their manifest entries tell of."""

from collections.abc import Mapping

from icefloe.iceberg.data_file import Constant, DataFile
from icefloe.iceberg.manifests.manifest_reader import DataEntry, EntryStatus


def described(
    lower: bytes | None = None,
    upper: bytes | None = None,
    *,
    nulls: int | None = None,
    constants: Mapping[str, Constant] | None = None,
) -> DataEntry:
    """A file of two rows of a column with id 1."""
    file = DataFile(
        path="f",
        file_format="PARQUET",
        spec_id=0,
        record_count=2,
        file_size_bytes=1,
        constants={} if constants is None else constants,
    )
    return DataEntry(
        status=EntryStatus.ADDED,
        snapshot_id=1,
        data_file=file,
        partition=(0, ()),
        lower_bounds={} if lower is None else {1: lower},
        upper_bounds={} if upper is None else {1: upper},
        null_value_counts={} if nulls is None else {1: nulls},
    )
