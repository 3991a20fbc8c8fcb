"""Batches whose changes are sorted: one stream from the first part to the last, whoever dies meanwhile."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.types import LongType

from icefloe.batch.deliver.deliver_batch import DeliveryRecords
from icefloe.batch.deliver.sorted_ranges import RangeBounds, SortedRanges
from icefloe.documents import dump_document
from icefloe.errors import TransientError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.change_files import FilesDelivery
from icefloe.sinks.row_order import RowOrder
from icefloe.sinks.sink import PartDelivery
from icefloe.storage.location import open_store
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


def test_ranges_of_keys_are_one_stream_and_each_is_a_part(lab: Ordered) -> None:
    fill(lab)
    done = lab.command("run", shuffle=RANGES)
    assert done.code == 0, done.err
    changes = lab.rows(0)
    assert len(lab.names(0)) > 3
    ordered = duckdb.sql("from changes order by value nulls first, id").to_arrow_table()
    assert changes.equals(ordered.cast(changes.schema))
    found = lab.command("verify", "--json")
    assert (found.code, found.document["is_equal"], found.document["rows"]) == (0, True, 120), found.err


RANGES = {"target_size_bytes": 2000, "map_task_bytes": 1}


def fill(lab: Ordered) -> None:
    for number in range(12):
        lab.append(*range(number * 10, number * 10 + 10), value=float(number * 7 % 12))


@pytest.mark.parametrize("nth", [0, 1, 3, 6])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [(FilesDelivery, "deliver"), (SortedRanges, "divide"), (DeliveryRecords, "create_part")])
def test_a_run_that_is_killed_while_it_delivers_is_followed_by_one_with_the_same_files(
    lab: Ordered, at: tuple[type, str], nth: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    place, name = at
    with monkeypatch.context() as patched:
        patched.setattr(place, name, dies_at(getattr(place, name), nth=nth, after=after))
        assert lab.command("run", shuffle=RANGES).code == 130
    before = {path: path.read_bytes() for path in lab.target.rglob("part-*")}
    done = lab.command("run", shuffle=RANGES)
    assert done.code == 0, done.err
    files = {path: path.read_bytes() for path in lab.target.rglob("part-*")}
    assert before.items() <= files.items()
    assert sorted(path.name for path in files) == sorted(lab.names(0))
    changes = lab.rows(0)
    assert changes.equals(duckdb.sql("from changes order by value, id").to_arrow_table().cast(changes.schema))


@pytest.mark.parametrize("columns_as", ["icefloe", "delta", "debezium"])
def test_lines_that_a_killed_run_wrote_are_kept(lab: Ordered, columns_as: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lab)
    sink = {"format": "jsonl", "columns_as": columns_as}
    with monkeypatch.context() as patched:
        patched.setattr(DeliveryRecords, "create_part", dies_at(DeliveryRecords.create_part, nth=2, after=False))
        assert lab.command("run", shuffle=RANGES, sink=sink).code == 130
    before = {path: path.read_bytes() for path in lab.target.rglob("part-*")}
    assert len(before) >= 3
    done = lab.command("run", shuffle=RANGES, sink=sink)
    assert done.code == 0, done.err
    assert before.items() <= {path: path.read_bytes() for path in lab.target.rglob("part-*")}.items()
    assert sorted(path.name for path in lab.target.rglob("part-*")) == sorted(lab.names(0))


def dies_at(call: Callable[..., Any], *, nth: int, after: bool) -> Callable[..., Any]:
    """The call, in a process that dies before or after the nth one."""
    calls = count()

    def dying(*arguments: Any, **named: Any) -> Any:
        number = next(calls)
        found = call(*arguments, **named) if number < nth + after else None
        if number >= nth:
            raise KeyboardInterrupt
        return found

    return dying


def test_parts_that_a_killed_run_divided_are_not_divided_again(lab: Ordered, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lab)
    with monkeypatch.context() as patched:
        patched.setattr(FilesDelivery, "deliver", dies_at(FilesDelivery.deliver, nth=1, after=False))
        assert lab.command("run", shuffle=RANGES).code == 130
    monkeypatch.setattr(SortedRanges, "divide", dies_at(SortedRanges.divide, nth=0, after=False))
    done = lab.command("run", shuffle=RANGES)
    assert done.code == 0, done.err


def test_of_two_runs_that_draw_bounds_the_first_to_record_them_counts(
    lab: Ordered, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    draw = RowOrder.bounds

    def drawn_late(order: RowOrder, samples: Any, ranges: int) -> tuple[bytes, ...]:
        found = draw(order, samples, ranges)
        [begun] = lab.storage().rglob("deliveries/begun.json")
        # Another run was faster, and knew fewer rows.
        (begun.parent / "bounds.json").write_bytes(dump_document(RangeBounds(bounds=found[1:2])))
        return found

    monkeypatch.setattr(RowOrder, "bounds", drawn_late)
    done = lab.command("run", shuffle=RANGES)
    assert done.code == 0, done.err
    assert [len(part["names"]) for part in lab.sorted_manifest(0)["parts"]] == [1, 1]
    changes = lab.rows(0)
    assert changes.equals(duckdb.sql("from changes order by value, id").to_arrow_table().cast(changes.schema))


@pytest.mark.parametrize("damage", ["flipped", "cut", "deleted"])
def test_a_divided_part_that_is_damaged_is_divided_again(
    lab: Ordered, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    with monkeypatch.context() as patched:
        patched.setattr(FilesDelivery, "deliver", dies_at(FilesDelivery.deliver, nth=0, after=False))
        assert lab.command("run", shuffle=RANGES).code == 130
    [file, *_] = sorted(lab.storage().rglob("shuffle/**/deliveries/*/00003.*.data"))
    data = file.read_bytes()
    file.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:] if damage == "flipped" else data[:10])
    if damage == "deleted":
        file.unlink()
    done = lab.command("run", shuffle=RANGES)
    assert (done.code, "divided part 3 of batch 0 is damaged" in done.err) == (75, True), done.err
    done = lab.command("run", shuffle=RANGES)
    assert done.code == 0, done.err
    changes = lab.rows(0)
    assert changes.equals(duckdb.sql("from changes order by value, id").to_arrow_table().cast(changes.schema))


@pytest.mark.parametrize("damage", ["flipped", "deleted"])
def test_extents_of_ranges_that_are_damaged_meanwhile_are_gathered_again(
    lab: Ordered, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    gather = SortedRanges.gather

    def damaged(store: Any, batch: Any, *, parts: int) -> None:
        gather(store, batch, parts=parts)
        [ranges] = lab.storage().rglob("shuffle/**/deliveries/*/ranges")
        data = ranges.read_bytes()
        ranges.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        if damage == "deleted":
            ranges.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(SortedRanges, "gather", damaged)
        done = lab.command("run", shuffle=RANGES)
    assert (done.code, "the ranges of batch 0 are damaged" in done.err) == (75, True), done.err
    done = lab.command("run", shuffle=RANGES)
    assert done.code == 0, done.err


def test_the_record_of_a_divided_part_is_read_once_and_not_by_each_range(
    lab: Ordered, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    store = type(open_store(lab.folder.as_uri()))
    get, read = store.get, list[str]()

    def noted(self: Any, key: str) -> bytes:
        read.append(key)
        return get(self, key)

    monkeypatch.setattr(store, "get", noted)
    done = lab.command("run", shuffle=RANGES)
    assert done.code == 0, done.err
    assert len(lab.names(0)) > 3
    assert len([key for key in read if re.fullmatch("deliveries/[0-9a-f]+/00003.json", key)]) == 1


def test_an_error_of_the_store_is_no_damage_of_a_divided_part(lab: Ordered, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lab)
    with monkeypatch.context() as patched:
        patched.setattr(FilesDelivery, "deliver", dies_at(FilesDelivery.deliver, nth=0, after=False))
        assert lab.command("run", shuffle=RANGES).code == 130
    store = type(open_store(lab.folder.as_uri()))
    get_ranges, lost = store.get_ranges, count()

    def lost_once(self: Any, key: str, ranges: Any) -> Any:
        if "deliveries/" in key and not next(lost):
            raise TransientError("the connection was lost")
        return get_ranges(self, key, ranges)

    records = {path: path.read_bytes() for path in lab.storage().rglob("shuffle/**/deliveries/*/*.json")}
    with monkeypatch.context() as patched:
        patched.setattr(store, "get_ranges", lost_once)
        done = lab.command("run", shuffle=RANGES)
    assert (done.code, "the connection was lost" in done.err, next(lost) > 0) == (75, True, True), done.err
    assert records
    assert records.items() <= {path: path.read_bytes() for path in lab.storage().rglob("*.json")}.items()


@pytest.mark.parametrize("damage", ["fewer lines", "another value"])
@pytest.mark.parametrize("columns_as", ["icefloe", "delta", "debezium"])
def test_changes_that_were_lost_in_the_middle_are_found(lab: Ordered, columns_as: str, damage: str) -> None:
    sink = {"format": "jsonl", "columns_as": columns_as, "order_by": ["value", "id"]}
    lab.append(*range(6))
    for value in (2.0, 3.0, 4.0):
        assert lab.command("run", sink=sink).code == 0
        lab.update(*range(6), value=value)
    assert lab.command("run", sink=sink).code == 0
    assert lab.command("verify", sink=sink).code == 0
    path = lab.target / "batch=1" / lab.names(1)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    # Later batches replace these rows, so that the last change of each key is as it was.
    path.write_bytes(
        b"".join(
            lines[:-2] if damage == "fewer lines" else [each.replace(b'"value":2', b'"value":7') for each in lines]
        )
    )
    found = lab.command("verify", sink=sink)
    assert (found.code, "batch=1/part-00000.jsonl differs from its manifest" in found.err) == (65, True), found.err


def test_an_unknown_column_is_refused_before_a_batch_is_opened(lab: Ordered) -> None:
    lab.append(1)
    done = lab.command("run", sink={"order_by": ["valeu"]})
    assert done.code == 65
    assert "sort key column 'valeu' is not in the table; did you mean 'value'?" in done.err


@pytest.mark.parametrize("change", ["renamed", "dropped"])
def test_a_sort_key_that_is_gone_is_restored_or_the_pipeline_is_reset(lab: Ordered, change: str) -> None:
    lab.append(1)
    assert lab.command("run").code == 0
    with lab.table.update_schema(allow_incompatible_changes=True) as columns:
        if change == "renamed":
            columns.rename_column("value", "amount")
        else:
            columns.delete_column("value")
    lab.table.delete(EqualTo(term="id", value=1))
    done = lab.command("run")
    assert done.code == 65
    assert done.err.endswith("restore the column's name, or start over by icefloe reset events\n")
    assert "no batch is open" in lab.command("abandon").out
    if change == "renamed":
        with lab.table.update_schema() as columns:
            columns.rename_column("amount", "value")
        lab.append(2)
        done = lab.command("run")
        assert done.code == 0, done.err


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_column_of_delta_is_refused_before_a_batch_is_opened(lab: Ordered, has_begun: bool) -> None:
    sink = {"columns_as": "delta"}
    if has_begun:
        lab.append(1)
        assert lab.command("run", sink=sink).code == 0
    with lab.table.update_schema() as columns:
        columns.add_column("_commit_version", LongType())
    lab.table.append(pa.table({"id": [2], "_commit_version": [7]}))
    for command in ("validate", "run"):
        done = lab.command(command, sink=sink)
        assert done.code == 65, (command, done.out, done.err)
        assert "has a column _commit_version, and so has columns_as: delta" in done.out + done.err
        assert ("icefloe reset events" in done.out + done.err) is has_begun
    if not has_begun:
        done = lab.command("run", sink=sink, columns=["id", "value"])
        assert done.code == 0, done.err


def test_a_run_that_doubles_a_change_and_loses_another_ends_without_a_manifest(
    lab: Ordered, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.append(*range(9))
    deliver = FilesDelivery.deliver

    def doubling(self: FilesDelivery, batch: ProvenBatch, begun: Any, part: StagedPart) -> PartDelivery:
        rows = pa.Table.from_batches(part.read()).take([0, 0, *range(2, 9)])
        return deliver(self, batch, begun, replace(part, read=rows.to_batches))

    with monkeypatch.context() as patched:
        patched.setattr(FilesDelivery, "deliver", doubling)
        done = lab.command("run")
    assert (done.code, "or other values, were written" in done.err) == (65, True), done.err
    assert not list(lab.target.rglob("_manifest.json"))
