"""Targets in a catalog of their own, and sinks that write to them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from icefloe.sinks.iceberg.changelog import ChangelogSink
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.row_history import HistorySink
from icefloe.sinks.iceberg.table_sink import TableSink
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.testing.processes import DeliveringProcess, OutwardCalls
from icefloe.testing.staged_history import ORIGIN, StagedBatch

NAME = "changes.flights"
OUTWARD = ("load_table", "create_table", "commit_table", "namespace_exists")


class _Catalog(SqlCatalog):
    def __init__(self, lake: "Lake") -> None:
        super().__init__("lake", **lake.properties)
        self._lake = lake

    def commit_table(self, *arguments: Any) -> Any:
        while self._lake.between:
            self._lake.between.pop()()
        answer = super().commit_table(*arguments)
        while self._lake.after:
            self._lake.after.pop()()
        return answer


@dataclass
class Lake:
    """A catalog in SQLite with one target.

    Attributes:
        between: called once, right before the next commit of a sink.
        after: the same, right after it.
        kind: a sink in place of the one of the mode.
    """

    folder: Path
    mode: str = "changelog"
    takes_whole_rows: bool = False
    track: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    between: list[Callable[[], object]] = field(default_factory=list)
    after: list[Callable[[], object]] = field(default_factory=list)
    kind: type[TableSink] | None = None

    @classmethod
    def create(cls, folder: Path, *, mode: str = "changelog") -> "Lake":
        folder.mkdir(exist_ok=True)
        lake = cls(folder, mode)
        lake.catalog.create_namespace("changes")
        return lake

    @property
    def catalog(self) -> SqlCatalog:
        return SqlCatalog("lake", **self.properties)

    @property
    def properties(self) -> dict[str, str]:
        return {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}/lake"}

    @property
    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def sink(self, calls: OutwardCalls | None = None) -> TableSink:
        catalog = _Catalog(self)
        target = TargetTable(catalog if calls is None else calls.watch(catalog, only=OUTWARD), NAME)
        if self.kind is not None:
            return self.kind(target)
        if self.mode == "history":
            return HistorySink(target, track=self.track, untracked=self.untracked)
        if self.mode == "mirror":
            return MirrorSink(target, takes_whole_rows=self.takes_whole_rows)
        return ChangelogSink(target)

    def deliver(self, *batches: StagedBatch) -> DeliveringProcess:
        process = DeliveringProcess(lambda _calls: self.sink())
        process.claim(ORIGIN)
        process.run(*batches)
        return process

    def rows(self) -> list[dict[str, Any]]:
        return self.table.scan().to_arrow().sort_by([("_batch", "ascending"), ("id", "ascending")]).to_pylist()

    def files(self) -> set[str]:
        return {str(file) for file in (self.folder / "lake").rglob("*.parquet")}

    def named_files(self) -> set[str]:
        return {task.file.file_path.removeprefix("file://") for task in self.table.scan().plan_files()}
