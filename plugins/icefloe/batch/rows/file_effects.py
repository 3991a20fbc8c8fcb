"""The rows of a data file that a batch touches, and the effect of each step on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyroaring import BitMap64

from icefloe.batch.map_task import MapTask
from icefloe.batch.rows.row_set import RowSet
from icefloe.batch.rows.term_effects import TermEffects
from icefloe.batch.rows.weighted_rows import Effect
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.kept_footers import KeptFooters
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import FileIO

__all__ = ["FileEffects", "task_file_effects"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEffects:
    """A data file with its delete files applied.

    Attributes:
        effects: effects by ordinal; each has a weight other than 0 and at least one row.
    """

    data_file: DataFile
    effects: tuple[Effect, ...]

    @property
    def key(self) -> tuple[str, int | None]:
        """Key of the file in its map task. A file may be there twice, with other constants or row ids.

        Row groups of one file are never in one task.
        """
        return self.data_file.identity, self.data_file.first_row_id

    @property
    def touched(self) -> RowSet:
        """The rows that any effect needs."""
        return RowSet.union_of([effect.rows for effect in self.effects])

    def touched_count(self) -> int:
        """Number of rows that any effect needs."""
        return self.touched.count(self.data_file.record_count)


def task_file_effects(
    task: MapTask,
    *,
    equality_schemas: Mapping[tuple[int, ...], TableSchema],
    io: FileIO,
    table: str,
    memory_bytes: int,
    footers: KeptFooters | None = None,
) -> list[FileEffects]:
    """The files of a map task, each with the effects that its terms add up to.

    Args:
        task: the map task. Its delete files are read as far as they apply to its files.
        equality_schemas: schemas of its equality delete files, by their field ids.
        io: opens the files.
        table: its name, for errors.
        memory_bytes: memory of the map task, which reads no row before this is done.
        footers: footers of its data files, which are opened again when their rows are read.

    Raises:
        FileGoneError: a delete file does not exist, or a data file whose keys are needed.
        TerminalError: one is damaged, or may not be read.
        TransientError: the storage did not answer.
    """
    if not task.delete_files:
        return _file_effects(task, lambda *_: {})
    # Loaded here, because a task without delete files needs none of its modules.
    from icefloe.iceberg.deletes.deleted_positions import DeletedPositions

    deleted = DeletedPositions(
        task.delete_files,
        equality_schemas=equality_schemas,
        io=io,
        table=table,
        data_files=[work.data_file for work in task.files],
        memory_bytes=memory_bytes // 2,
        footers=footers,
    )
    return _file_effects(task, deleted.of)


def _file_effects(
    task: MapTask, deleted_by: Callable[[DataFile, Sequence[int]], Mapping[int, BitMap64]]
) -> list[FileEffects]:
    shared = [TermEffects(terms) for terms in task.shared_terms]
    rows = []
    for work, terms in zip(task.files, task.terms_of_files(), strict=True):
        prepared = TermEffects(terms) if work.shared is None else shared[work.shared]
        effects = prepared.on(work.data_file.record_count, partial(deleted_by, work.data_file))
        rows.append(FileEffects(data_file=work.data_file, effects=effects))
    return rows
