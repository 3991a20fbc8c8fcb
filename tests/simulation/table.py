"""A table of a few rows, kept in every state that its commits give it."""

import atexit
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.table import Table
from support.catalogs import sql_properties
from support.pipelines.workshop import Workshop
from support.spark.row_counts import Row
from support.tables.events import NAME

__all__ = ["COMMITS", "TableStates", "table_states"]

COMMITS: Final[tuple[Callable[[Workshop], object], ...]] = (
    lambda workshop: workshop.append([1, 2]),
    lambda workshop: workshop.append([3, 4]),
    lambda workshop: workshop.update([1, 3], value=2.0),
    lambda workshop: workshop.append([5]),
    lambda workshop: workshop.delete([2]),
    lambda workshop: workshop.update([4, 5], value=3.0),
    lambda workshop: workshop.append([6, 7]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStates:
    """The table after each commit.

    Attributes:
        tables: by number of commits, from 0.
        rows: rows by the id of a snapshot that ended a commit.
        places: number of commits by the id of the snapshot that ended the last of them.
    """

    tables: tuple[Table, ...]
    rows: dict[int | None, Counter[Row]]
    places: dict[int | None, int]


@lru_cache(maxsize=1)
def table_states() -> TableStates:
    """The states, written once per process to a folder that goes with the process.

    Names of files and ids of snapshots are the same in every process, so that a seed is too.
    """
    folder = Path(tempfile.mkdtemp(prefix="icefloe-simulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    names = Random("names")
    with patch("uuid.uuid4", lambda: uuid.UUID(int=names.getrandbits(128), version=4)):
        return _states(Workshop.create(folder))


def _states(workshop: Workshop) -> TableStates:
    catalog = {"name": "lab", **sql_properties(workshop.folder)}
    tables = [load_table(catalog, f"db.{NAME}")]
    rows: dict[int | None, Counter[Row]] = {None: Counter()}
    places: dict[int | None, int] = {None: 0}
    for commit in COMMITS:
        commit(workshop)
        head = workshop.head()
        tables.append(load_table(catalog, f"db.{NAME}"))
        rows[head] = workshop.state(head)
        places[head] = len(places)
    return TableStates(tables=tuple(tables), rows=rows, places=places)
