"""A table whose commits are made once and then shown again and again, by as many catalogs as there are tests.

Commits cost most of the time of a test about runs. Metadata files never change, so a catalog that points to an older
one shows the table as it was then, and moving the pointer is a commit.
"""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyiceberg.table import Table

from support.catalogs import open_sql_catalog, sql_properties
from support.pipelines.workspace import Workspace

__all__ = ["ShownTable", "TableStates"]


class TableStates:
    """The states of the table ``db.events`` of a workspace, by name, in the order in which they were kept."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._locations: dict[str, str] = {}

    def keep(self, name: str) -> None:
        """Gives the state of now a name."""
        self._locations[name] = self.workspace.table.refresh().metadata_location

    def shown(self, folder: Path, name: str) -> "ShownTable":
        """A new catalog in a folder, which shows the table in a state."""
        shutil.copyfile(self.workspace.folder / "catalog.db", folder / "catalog.db")
        return ShownTable(folder=folder, warehouse=self.workspace.folder / "warehouse", states=self._locations).at(name)


@dataclass(frozen=True, kw_only=True)
class ShownTable:
    """The table, as one catalog shows it."""

    folder: Path
    warehouse: Path
    states: dict[str, str]

    @property
    def catalog(self) -> dict[str, str]:
        """The key of a pipeline file."""
        return {"name": "lab", **sql_properties(self.folder), "warehouse": f"file://{self.warehouse}"}

    def at(self, name: str) -> Self:
        """Shows another state: a commit to the table, for whoever looks."""
        _point(self.folder, self.states[name])
        return self

    def table(self) -> Table:
        """The table as it is shown now."""
        return open_sql_catalog("lab", self.folder).load_table("db.events")


def _point(folder: Path, metadata_location: str) -> None:
    with sqlite3.connect(folder / "catalog.db") as catalog:
        catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", (metadata_location,))
    catalog.close()
