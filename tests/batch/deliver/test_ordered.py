"""Batches whose changes are sorted: one stream from the first part to the last, whoever dies meanwhile."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.pipelines.workspace import Outcome, Workspace, icefloe


class Ordered(Workspace):
    """A pipeline whose files are sorted."""

    def command(self, name: str, *arguments: object, **keys: Any) -> Outcome:
        return icefloe(name, self.file(**keys), *arguments)

    def file(self, *, sink: dict[str, Any] | None = None, **keys: Any) -> Path:
        whole = {"type": "files", "path": self.target.as_uri(), "order_by": ["value"], **(sink or {})}
        return self.pipeline(sink=whole, engine="local", **keys)

    @property
    def target(self) -> Path:
        return self.folder / "sorted"

    def names(self, batch: int) -> list[str]:
        return [name for part in self.sorted_manifest(batch)["parts"] for name in part["names"]]

    def sorted_manifest(self, batch: int) -> dict[str, Any]:
        return json.loads((self.target / f"batch={batch}" / "_manifest.json").read_text())

    def rows(self, batch: int) -> pa.Table:
        return pa.concat_tables(pq.read_table(self.target / f"batch={batch}" / name) for name in self.names(batch))


@pytest.fixture
def lab(tmp_path: Path) -> Ordered:
    return Ordered.create(tmp_path)


def test_the_parts_of_a_batch_are_one_stream_as_duckdb_sorts_it(lab: Ordered) -> None:
    for number in range(12):
        lab.append(number, value=float(number * 7 % 12))
    done = lab.command("run")
    assert done.code == 0, done.err
    changes = lab.rows(0)
    assert changes.num_rows == 12
    assert changes.equals(duckdb.sql("from changes order by value nulls first").to_arrow_table().cast(changes.schema))
    lab.update(3, 4, 5, value=2.5)
    lab.delete(1)
    done = lab.command("run")
    assert done.code == 0, done.err
    assert lab.rows(1)["value"].to_pylist() == sorted(lab.rows(1)["value"].to_pylist())
    assert lab.rows(1).num_rows == 7
    found = lab.command("verify", "--json")
    assert (found.code, found.document["is_equal"]) == (0, True), found.err


def test_an_unknown_column_is_refused_before_a_batch_is_opened(lab: Ordered) -> None:
    lab.append(1)
    done = lab.command("run", sink={"order_by": ["valeu"]})
    assert done.code == 65
    assert "sort key column 'valeu' is not in the table; did you mean 'value'?" in done.err
