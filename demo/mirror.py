"""A table in a catalog of its own that the demo keeps equal to the flights."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from subprocess import DEVNULL, Popen
from time import sleep
from typing import ClassVar

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import ALWAYS_TRUE, Table

from demo.destination import Destination
from demo.flights_table import CATALOG, TableChange, catalog_properties
from demo.progress import Progress

__all__ = ["Mirror"]

_NAME = "copies"
_KILLED_BATCH = 2


class Mirror(Destination[nullcontext[None]]):
    """The catalog ``copies`` with the table ``copies.flights``; a context manager.

    Args:
        folder: of the demo; the catalog is in a folder of its own there.
    """

    pipeline = "flights_mirror.yaml"
    title = "a second catalog"
    noun: ClassVar[str] = "mirror"
    current: ClassVar[str | BooleanExpression] = ALWAYS_TRUE
    """A filter for the rows that the table has too."""

    def __init__(self, folder: Path) -> None:
        super().__init__(nullcontext())
        self._folder = folder / _NAME

    @property
    def connections(self) -> Mapping[str, str]:
        """See `Destination`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._catalog().create_namespace_if_not_exists(_NAME)
        return {"AIRFLOW_CONN_COPIES": json.dumps({"conn_type": "iceberg", "extra": catalog_properties(self._folder)})}

    def disturb(self, number: int, pipeline: Path, progress: Progress) -> None:
        """Begin the third batch in a process of its own, and kill that while it writes to the mirror."""
        if number != _KILLED_BATCH:
            return
        catalogs = {CATALOG: self._folder.parent, _NAME: self._folder}
        variables = {
            f"PYICEBERG_CATALOG__{name}__{key}".upper(): value
            for name, folder in catalogs.items()
            for key, value in catalog_properties(folder).items()
        }
        before = self._files()
        command = [sys.executable, "-m", "icefloe", "run", str(pipeline), "--engine", "local"]
        with progress.step(f"Killing a run of the next batch while it writes to the {self.noun}"):
            run = Popen(command, env={**os.environ, **variables}, stdout=DEVNULL, stderr=DEVNULL)
            while run.poll() is None and self._files() == before:
                sleep(0.001)
            run.kill()
            run.wait()

    def _files(self) -> int:
        return sum(1 for _ in self._folder.rglob("*.parquet"))

    def show(self, progress: Progress, changes: Sequence[TableChange], rows: int) -> list[str]:
        """Says which snapshots the mirror has; returns a sentence if its rows are not those of the table."""
        table = self.table()
        progress.say(f"\n{len(changes)} batches are {len(table.metadata.snapshots)} snapshots of {_NAME}.flights:\n")
        for snapshot in table.metadata.snapshots:
            summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
            shown = ("icefloe.batch", "added-records", "added-position-deletes", "deleted-records", "total-data-files")
            progress.say(f"  {json.dumps({name: summary[name] for name in shown if name in summary})}")
        found = table.scan(self.current).count()
        return [] if found == rows else [f"the {self.noun} has {found:,} rows, not {rows:,}"]

    def table(self) -> Table:
        """The target."""
        return self._catalog().load_table(f"{_NAME}.flights")

    def _catalog(self) -> SqlCatalog:
        return SqlCatalog(_NAME, **catalog_properties(self._folder))
