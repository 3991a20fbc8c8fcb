"""Files whose rows all have a weight in some steps, without any delete file."""

from icefloe.batch.rows.file_effects import Effect, FileEffects
from icefloe.iceberg.data_file import DataFile

__all__ = ["touched_file"]


def touched_file(path: str, rows: int, *weights: tuple[int, int]) -> FileEffects:
    """A file of ``rows`` rows that have the given (change_ordinal, weight)."""
    file = DataFile(path=path, file_format="PARQUET", spec_id=0, record_count=rows, file_size_bytes=10)
    return FileEffects(data_file=file, effects=tuple(Effect(change_ordinal=o, weight=w) for o, w in weights))
