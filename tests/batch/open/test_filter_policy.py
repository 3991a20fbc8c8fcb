"""Rows that were delivered stay in a filter or out of it, unless somebody changes them."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StructType

from icefloe.errors import TerminalError
from support.pipelines.operated import Operated
from support.pipelines.workshop import Workshop

NUMBERS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "near", FloatType()),
    NestedField(3, "count", IntegerType()),
    NestedField(4, "inner", StructType(NestedField(5, "near", FloatType()))),
)


def add_again(workshop: Workshop, name: str = "value") -> None:
    with workshop.table.update_schema() as update:
        update.delete_column(name)
    with workshop.table.update_schema() as update:
        update.add_column(name, DoubleType())


def swap(workshop: Workshop, one: str, other: str) -> None:
    for was, now in ((one, "between"), (other, one), ("between", other)):
        with workshop.table.update_schema() as update:
            update.rename_column(was, now)


def numbers(workshop: Workshop, **values: Any) -> None:
    row = {"id": 1, "near": 0.1, "count": 7, "inner": {"near": 0.1}, **values}
    workshop.table.append(pa.Table.from_pylist([row], schema=workshop.table.refresh().schema().as_arrow()))


def promote(workshop: Workshop) -> None:
    with workshop.table.update_schema() as update:
        update.update_column("near", DoubleType())
        update.update_column(("inner", "near"), DoubleType())
        update.update_column("count", LongType())


@pytest.mark.parametrize("record", ["kept", "of an older release", "of a move of the cursor"])
def test_a_column_of_the_filter_that_is_added_again_stops_the_pipeline(tmp_path, record: str) -> None:
    operated = Operated.create(tmp_path).set(filter="value > 1 and id is not null")
    head = operated.append([1, 2], value=5.0)
    operated.deliver()
    if record == "of an older release":
        path = operated.storage / "checkpoints/events/offsets/0.json"
        document = json.loads(path.read_text())
        assert document["result_configuration"].pop("filter_columns") == [[1, "long"], [2, "double"]]
        path.write_text(json.dumps(document))
    elif record == "of a move of the cursor":
        operated.append([3])
        operated.deliver()
        assert operated.command("set-cursor", "--yes", "--snapshot-id", head).code == 0
    add_again(operated)
    # Its row was delivered and passes no more, so that nobody would hear of its deletion.
    operated.delete([1])
    stopped = operated.command("run")
    assert stopped.code == 65
    assert "filtered rows of table db.events by column 'value' since its first batch" in stopped.err
    assert "another column now" in stopped.err
    assert operated.command("reset", "--yes").code == 0
    operated.deliver()
    assert operated.changes(operated.session().checkpoint.look().next_number - 1).num_rows == 0


def test_a_column_that_swapped_names_with_another_one_stops_it_until_the_names_are_back(workshop: Workshop) -> None:
    workshop.set(filter="other is null", identifier_columns=None)
    workshop.table.update_schema().add_column("other", LongType()).commit()
    workshop.append([1, 2])
    workshop.deliver()
    swap(workshop, "id", "other")
    workshop.table.refresh().delete("other = 1")
    with pytest.raises(TerminalError, match="column 'other' since its first batch"):
        workshop.prepare()
    swap(workshop, "id", "other")
    workshop.append([3])
    report = workshop.deliver()
    assert report is not None
    assert (report.batch.counts["insert"], report.batch.counts["delete"]) == (1, 1)


@pytest.mark.parametrize("text", ["near > 0.1", "not (inner.near in (0.5, 0.1))"])
def test_a_number_that_a_float_rounds_is_compared_otherwise_once_its_column_is_a_double(tmp_path, text: str) -> None:
    workshop = Workshop.create(tmp_path, NUMBERS).set(filter=text)
    numbers(workshop)
    report = workshop.deliver()
    assert report is not None
    assert report.batch.counts["insert"] == 0
    promote(workshop)
    # Its row passes now, so that its deletion would be a change of a row that nobody has.
    workshop.table.refresh().delete("id = 1")
    with pytest.raises(TerminalError, match=r"near' since its first batch, but it was a float and is a double now"):
        workshop.prepare()


@pytest.mark.parametrize("text", ["near > 0.5", f"inner.near < 1{300 * '0'}", "near is not null", "count < 3000000000"])
def test_other_promotions_of_a_column_change_nothing(tmp_path, text: str) -> None:
    workshop = Workshop.create(tmp_path, NUMBERS).set(filter=text)
    numbers(workshop, near=0.7)
    workshop.deliver()
    promote(workshop)
    workshop.table.refresh().delete("id = 1")
    report = workshop.deliver()
    assert report is not None
    assert report.batch.counts["delete"] == 1


def test_a_name_that_comes_from_the_environment_is_not_shown(workshop: Workshop, monkeypatch) -> None:
    monkeypatch.setenv("COLUMN", "value")
    workshop.set(filter="${COLUMN} > 1")
    workshop.append([1, 2], value=5.0)
    workshop.deliver()
    add_again(workshop)
    workshop.table.refresh().delete("id = 1")
    with pytest.raises(TerminalError, match=r"by a column made of \$\{COLUMN\} since"):
        workshop.prepare()
