"""The table ``db.events`` of most tests, in a catalog on SQLite, and the pipeline file over it.

`Workshop` drives it through the library, `Workspace` through the command line.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import yaml
from pyiceberg.expressions import AlwaysTrue, In
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from support.catalogs import open_sql_catalog, sql_properties

__all__ = ["NAME", "SCHEMA", "EventsTable", "rows", "write_pipeline_file"]

SCHEMA: Final = pa.schema([pa.field("id", pa.int64()), pa.field("value", pa.float64()), pa.field("word", pa.string())])
NAME: Final = "events"
_CATALOG: Final = "lab"
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def rows(ids: Iterable[int], value: float = 1.0) -> pa.Table:
    """Rows of the table, one for each id; an id may come again."""
    given = list(ids)
    columns = {"id": given, "value": [value] * len(given), "word": [f"word {number % 97}" for number in given]}
    return pa.table(columns, schema=SCHEMA)


def write_pipeline_file(path: Path, *, tables: Path, storage: Path, output: Path, keys: Mapping[str, Any]) -> Path:
    """Writes a pipeline file over the table.

    Args:
        path: of the file.
        tables: folder of the table's catalog.
        storage: of the pipeline.
        output: path of its sink.
        keys: in place of the minimal ones, or in addition; a key of None is left out.
    """
    minimal = {
        "version": 1,
        "name": NAME,
        "catalog": {"name": _CATALOG, **sql_properties(tables)},
        "table": f"db.{NAME}",
        "identifier_columns": ["id"],
        "storage": f"file://{storage}",
        "engine": "local",
        "sink": {"type": "files", "path": f"file://{output}"},
    }
    given = {key: value for key, value in {**minimal, **keys}.items() if value is not None}
    path.write_text(yaml.dump(given, Dumper=_DUMPER, sort_keys=False))
    return path


@dataclass(frozen=True, kw_only=True)
class EventsTable:
    """The table, and the folder around it; every write returns the snapshot that it made."""

    folder: Path
    table: Table

    @classmethod
    def create(cls, folder: Path, schema: pa.Schema | Schema = SCHEMA, **options: Any) -> Self:
        """Options are those of PyIceberg's ``create_table``."""
        folder.mkdir(exist_ok=True)
        catalog = open_sql_catalog(_CATALOG, folder)
        catalog.create_namespace_if_not_exists("db")
        return cls(folder=folder, table=catalog.create_table(f"db.{NAME}", schema, **options))

    def add(self, ids: Iterable[int], *, value: float = 1.0) -> int:
        self.table.append(rows(ids, value))
        return self.head()

    def change(self, ids: Iterable[int], *, value: float) -> int:
        """A copy-on-write update, one snapshot group."""
        given = list(ids)
        self.table.overwrite(rows(given, value), overwrite_filter=In(term="id", literals=given))
        return self.head()

    def remove(self, ids: Iterable[int]) -> int:
        self.table.delete(In(term="id", literals=list(ids)))
        return self.head()

    def replace(self, table: pa.Table) -> int:
        """Puts one new file in the place of all."""
        self.table.overwrite(table, overwrite_filter=AlwaysTrue())
        return self.head()

    def head(self) -> int:
        snapshot = self.table.refresh().current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id
