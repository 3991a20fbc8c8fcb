"""The inputs of a map task: the folder of its batch, and the table's files."""

from dataclasses import dataclass, field

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.rows.file_effects import FileEffects, task_file_effects
from icefloe.batch.rows.memory_limit import RowLimit
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.iceberg.files.parquet_footer import KeptFooters
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import FileIO

__all__ = ["MapInputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapInputs:
    """All that one map task reads, and its batch's folder. Tasks in other threads have inputs of their own."""

    folder: BatchFolder
    io: FileIO
    footers: KeptFooters = field(default_factory=KeptFooters, repr=False, compare=False)

    def row_reader(self) -> TableRowReader:
        """Reads the table's files in the shape of the batch."""
        return TableRowReader(
            shape=self.folder.shape,
            io=self.io,
            table=self.folder.plan.table,
            bound=RowLimit(memory_bytes=self.folder.memory_bytes),
            footers=self.footers,
        )

    def file_effects(self, map_id: int) -> list[FileEffects]:
        """The files of one map task, delete files applied."""
        plan = self.folder.plan
        return task_file_effects(
            self.folder.map_task(map_id),
            equality_schemas={
                tuple(map(int, ids.split(","))): TableSchema.from_json(columns, name_mapping=plan.name_mapping)
                for ids, columns in plan.equality_schemas.items()
            },
            io=self.io,
            table=plan.table,
            memory_bytes=self.folder.memory_bytes,
            footers=self.footers,
        )
