"""Random changes are one sorted stream, in little memory, in every form and output mode."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from batch.deliver.random_order import RandomTable, require_sorted
from icefloe.sinks import row_order


@pytest.fixture
def lab(tmp_path: Path) -> RandomTable:
    return RandomTable.create(tmp_path)


def run(lab: RandomTable, **keys: Any) -> None:
    done = lab.command("run", **keys)
    assert done.code == 0, done.err
    found = lab.command("verify", "--json", **keys)
    assert (found.code, found.document["is_equal"]) == (0, True), found.out + found.err


@pytest.mark.parametrize("seed", [1, 2])
def test_random_changes_are_one_sorted_stream(lab: RandomTable, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that ranges are divided on disk, too.
    monkeypatch.setattr(row_order, "_LARGEST_PIECE_BYTES", 20_000)
    lab.fill(seed)
    run(lab)
    assert len(lab.parts(0)) > 5
    assert lab.stream(0).num_rows == 3000
    require_sorted(lab.stream(0), "value", "word")
    lab.update(*range(0, 3000, 5), value=-3.0)
    lab.delete(*range(1, 3000, 7))
    run(lab)
    assert lab.stream(1).num_rows > 1000
    require_sorted(lab.stream(1), "value", "word")


@pytest.mark.parametrize("changes", ["each", "net", "upsert"])
@pytest.mark.parametrize("form", [{"format": "jsonl"}, {"columns_as": "delta"}, {"columns_as": "debezium"}])
def test_every_form_is_verified_in_every_mode(lab: RandomTable, changes: str, form: dict[str, str]) -> None:
    lab.fill(3, 400)
    run(lab, sink=form, changes=changes)
    lab.update(*range(0, 400, 5), value=-3.0)
    lab.delete(*range(1, 400, 7))
    lab.append(*range(500, 520))
    run(lab, sink=form, changes=changes)
    manifest = json.loads((lab.target / "batch=1/_manifest.json").read_text())
    assert {"format": "parquet", **form}.items() <= manifest.items()
    assert manifest["order_by"] == ["value", "word"]


def test_inserts_alone_are_verified_as_lines(lab: RandomTable) -> None:
    lab.fill(3, 400)
    run(lab, sink={"format": "jsonl", "columns_as": "debezium"}, changes="append_only")


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_events_keep_both_rows_of_an_update_and_are_sorted_by_the_later_one(lab: RandomTable, format_: str) -> None:
    sink = {"columns_as": "debezium", "format": format_, "order_by": ["value"]}
    lab.fill(4)
    run(lab, sink=sink)
    for number in range(20):
        lab.update(*range(number, 3000, 20), value=float(number * 7 % 20))
    lab.delete(*range(0, 3000, 50))
    run(lab, sink=sink)
    events = _events(lab.parts(1))
    assert {event["op"] for event in events} == {"u", "d"}
    assert all(
        (event["before"]["id"], event["op"]) == (event["after"]["id"], "u") for event in events if event["after"]
    )
    values = [(event["after"] or event["before"])["value"] for event in events]
    assert values == sorted(values)
    assert len(lab.parts(1)) > 5


def _events(files: list[Path]) -> list[dict[str, Any]]:
    if files[0].suffix == ".parquet":
        return pa.concat_tables(ds.dataset(path).to_table() for path in files).to_pylist()
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]
