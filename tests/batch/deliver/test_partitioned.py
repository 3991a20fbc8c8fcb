"""Files in folders of partitions: other readers find every row there, and no run leaves one twice."""

import json
from base64 import b64decode
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from batch.deliver.test_ordered import RANGES, dies_at
from icefloe.batch.deliver.deliver_batch import DeliveryRecords
from icefloe.sinks.change_files import FilesDelivery
from support.pipelines.workspace import Outcome, Workspace, icefloe

TEXTS = [
    "a/b",
    "x=1",
    "50%",
    "%2F",
    "two words",
    " a",
    "é🙂",
    "",
    None,
    ".",
    "..",
    "a\nb",
    "__HIVE_DEFAULT_PARTITION__",
]
COLUMNS = {
    "word": pa.array(TEXTS),
    "whole": pa.array([-7, 0, 2**31 - 1, None, *range(9)], pa.int32()),
    "large": pa.array([-(2**63), 2**63 - 1, None, *range(10)], pa.int64()),
    "day": pa.array([date(1969, 12, 31), date(2024, 2, 29), None, *[date(2025, 1, 1)] * 10]),
    "at": pa.array([datetime(2024, 1, 2, 3, 4, 5, 6), None, *[datetime(1960, 1, 1)] * 11], pa.timestamp("us")),
    "moment": pa.array([datetime(2024, 1, 2, 3, 4, 5, 6, UTC), None, *[datetime(1960, 1, 1, tzinfo=UTC)] * 11]),
    "is_late": pa.array([True, False, None, *[True] * 10]),
    "price": pa.array([Decimal("-1.50"), Decimal("0.00"), None, *[Decimal("12345.67")] * 10], pa.decimal128(9, 2)),
    "data": pa.array([b"", b"\x00\xff", None, *[b"?/+"] * 10]),
    "token": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None, *[b"a" * 16] * 11], pa.binary(16))),
}
PLAIN = {name: column for name, column in COLUMNS.items() if name != "token"}
"""Arrow parses no uuid in the name of a folder."""


class Partitioned(Workspace):
    """A pipeline whose files lie in folders of partitions."""

    def command(
        self, name: str, *arguments: object, by: list[str], sink: dict[str, Any] | None = None, **keys: Any
    ) -> Outcome:
        whole = {"type": "files", "path": self.target.as_uri(), "partition_by": by, **(sink or {})}
        return icefloe(name, self.pipeline(sink=whole, engine="local", **keys), *arguments)

    def run(self, **keys: Any) -> None:
        done = self.command("run", **keys)
        assert done.code == 0, done.err
        found = self.command("verify", "--json", **keys)
        assert (found.code, found.document["is_equal"]) == (0, True), found.out + found.err

    @property
    def target(self) -> Path:
        return self.folder / "partitioned"

    def names(self, batch: int) -> list[str]:
        manifest = json.loads((self.target / f"batch={batch}" / "_manifest.json").read_text())
        return [name for part in manifest["parts"] for name in part["names"]]

    def kept(self, batch: int = 0) -> dict[str, bytes]:
        folder = self.target / f"batch={batch}"
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("part-*")}

    def fill(self, *columns: str) -> None:
        ids = pa.array(range(100, 100 + len(TEXTS)), pa.int64())
        self.table.append(
            pa.table({"id": ids, "value": pa.array([0.5] * len(ids)), **{c: COLUMNS[c] for c in columns}})
        )


def with_columns(folder: Path, *columns: str) -> Partitioned:
    lab = Partitioned.create(folder)
    with lab.table.update_schema() as update:
        update.union_by_name(pa.schema([(name, COLUMNS[name].type) for name in columns]))
    return lab


@pytest.mark.parametrize("form", [{"columns_as": "delta"}, {"format": "jsonl"}, {"columns_as": "debezium"}])
def test_values_of_every_type_come_back(tmp_path: Path, form: dict[str, str]) -> None:
    lab = with_columns(tmp_path, *COLUMNS)
    lab.fill(*COLUMNS)
    lab.run(by=[*COLUMNS, "id"], sink=form)
    lab.update(*range(100, 110), value=2.5)
    lab.delete(111, 112)
    lab.run(by=[*COLUMNS, "id"], sink=form)
    first = "word=a%2Fb/whole=-7/large=-9223372036854775808/day=1969-12-31/"
    assert any(name.startswith(first) for name in lab.names(0))
    assert all(name.count("/") == len(COLUMNS) + 1 for name in lab.names(1))


def test_a_value_that_is_too_long_for_a_folder_is_named_by_its_column(tmp_path: Path) -> None:
    lab = with_columns(tmp_path)
    lab.table.append(pa.table({"id": [1], "value": [1.0], "word": ["/" * 90]}))
    path = lab.pipeline(sink={"type": "files", "path": f"file://{lab.output()}", "partition_by": ["word"]})
    refused = icefloe("run", path)
    assert (refused.code, "column word has a value that is too long" in refused.err) == (65, True), refused.err


def test_other_readers_find_the_rows_of_files_without_partitions(tmp_path: Path) -> None:
    lab = with_columns(tmp_path, *PLAIN)
    lab.fill(*PLAIN)
    lab.run(by=[*PLAIN])
    assert icefloe("run", lab.pipeline("plain", engine="local")).code == 0
    [rows] = lab.delivered(0, "plain").values()
    shown = ["id", *PLAIN]
    nulls = ("", b"", "__HIVE_DEFAULT_PARTITION__")
    wanted = sorted([None if row[name] in nulls else row[name] for name in shown] for row in rows)
    # Arrow parses neither decimals nor bytes.
    kinds = {name: pa.string() if name in ("price", "data") else column.type for name, column in PLAIN.items()}
    partitioning = ds.partitioning(pa.schema({"batch": pa.int64(), **kinds}), flavor="hive")
    by_arrow = ds.dataset(lab.target, format="parquet", partitioning=partitioning).to_table()
    assert _values(by_arrow, shown) == wanted
    guessed = ds.dataset(lab.target, format="parquet", partitioning="hive").to_table()
    assert sorted(guessed["id"].to_pylist()) == [row[0] for row in wanted]
    files = f"read_parquet('{lab.target}/**/*.parquet', hive_partitioning=true, hive_types_autocast=false)"
    assert _values(duckdb.sql(f"from {files}").to_arrow_table(), shown) == wanted
    by_pandas = pd.read_parquet(lab.target, partitioning=partitioning, dtype_backend="pyarrow")
    assert _values(pa.Table.from_pandas(by_pandas), shown) == wanted


def _values(found: pa.Table, shown: list[str]) -> list[list[Any]]:
    rows = found.select(shown)
    for place, (name, column) in enumerate(PLAIN.items(), 1):
        if name != "data":
            rows = rows.set_column(place, name, rows[name].cast(column.type))
    values = [list(row.values()) for row in rows.to_pylist()]
    return sorted([*row[:-1], None if row[-1] is None else b64decode(row[-1])] for row in values)


def test_several_columns_in_every_part_are_sorted_in_their_folders(tmp_path: Path) -> None:
    lab = with_columns(tmp_path, "word", "whole")
    for _ in range(3):
        lab.fill("word", "whole")
    by, form = ["whole", "word"], {"order_by": ["value", "whole"]}
    lab.run(by=by, sink=form, shuffle=RANGES)
    assert len({name.rpartition("/")[2].partition("-")[2][:5] for name in lab.names(0)}) > 1
    assert sorted(lab.kept()) == sorted(lab.names(0))
    manifest = json.loads((lab.target / "batch=0/_manifest.json").read_text())
    values = [tuple(part["partitions"][name].values()) for part in manifest["parts"] for name in part["names"]]
    assert set(values) == set(zip(COLUMNS["whole"].to_pylist(), TEXTS, strict=True))
    assert "whole=-7/word=a%2Fb" in {name.rpartition("/")[0] for name in lab.names(0)}


def test_null_and_an_empty_text_have_one_folder_and_two_files(tmp_path: Path) -> None:
    lab = with_columns(tmp_path, "word")
    lab.fill("word")
    lab.run(by=["word"])
    manifest = json.loads((lab.target / "batch=0/_manifest.json").read_text())
    found = {name: each["word"] for part in manifest["parts"] for name, each in part["partitions"].items()}
    shared = [value for name, value in found.items() if name.startswith("word=__HIVE_DEFAULT_PARTITION__/")]
    assert shared == [None, "", "__HIVE_DEFAULT_PARTITION__"]
    assert sorted(map(str, found.values())) == sorted(map(str, TEXTS))


@pytest.mark.parametrize("nth", [0, 1, 3])
@pytest.mark.parametrize("at", [(FilesDelivery, "_put"), (FilesDelivery, "deliver"), (DeliveryRecords, "create_part")])
@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_a_killed_run_is_followed_by_one_with_the_same_files(
    tmp_path: Path, at: tuple[type, str], nth: int, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = with_columns(tmp_path, "word")
    for _ in range(3):
        lab.fill("word")
    keys: dict[str, Any] = {"by": ["word"], "shuffle": RANGES, "sink": {"format": format_}}
    place, name = at
    with monkeypatch.context() as patched:
        patched.setattr(place, name, dies_at(getattr(place, name), nth=nth, after=True))
        assert lab.command("run", **keys).code == 130
    before = lab.kept()
    lab.run(**keys)
    assert before
    assert before.items() <= lab.kept().items()
    assert sorted(lab.kept()) == sorted(lab.names(0))


def test_a_sweep_deletes_in_folders_of_partitions_only_what_no_manifest_names(tmp_path: Path) -> None:
    lab = with_columns(tmp_path, "word")
    lab.fill("word")
    lab.run(by=["word"])
    before = lab.kept()
    (lab.target / "batch=0/word=%252F/part-00099.parquet").write_bytes(b"left by a task")
    (lab.target / "batch=0/word=other").mkdir()
    (lab.target / f"batch=0/word=other/{lab.names(0)[0].rpartition('/')[2]}").write_bytes(b"left by a task")
    done = icefloe("sweep", lab.storage().as_uri(), "--yes", "--json")
    assert done.code == 0, done.err
    assert lab.kept() == before


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("wrod", "partition column 'wrod' is not in the table; did you mean 'word'?"),
        ("value", "cannot be partitioned by column 'value': it must be at the top, no float"),
        ("_change_type", "partition column '_change_type' is not in the table"),
        ("place", "partition column 'place'"),
        ("place.town", "cannot be partitioned by column 'place.town': it must be at the top"),
        ("Batch", "not named batch"),
        ("_hidden", "must not begin with _"),
    ],
)
def test_a_column_that_makes_no_folder_is_refused_before_a_batch_is_opened(
    tmp_path: Path, column: str, sentence: str
) -> None:
    lab = Partitioned.create(tmp_path)
    with lab.table.update_schema() as update:
        place = pa.struct([("town", pa.string())])
        more = [("word", pa.string()), ("place", place), ("Batch", pa.int64()), ("_hidden", pa.int64())]
        update.union_by_name(pa.schema(more))
    lab.append(1)
    done = lab.command("run", by=[column])
    assert (done.code, sentence in done.err) == (65, True), done.err
    assert not lab.target.exists() or not list(lab.target.glob("batch=*"))


def test_an_events_folder_is_not_named_as_one_of_its_columns(tmp_path: Path) -> None:
    lab = Partitioned.create(tmp_path)
    with lab.table.update_schema() as update:
        update.union_by_name(pa.schema([("op", pa.string())]))
    lab.append(1)
    done = lab.command("run", by=["op"], sink={"columns_as": "debezium"})
    assert (done.code, "not named batch or before or after or source or op or ts_ms" in done.err) == (65, True), (
        done.err
    )
    done = lab.command("run", by=["op"])
    assert done.code == 0, done.err


def test_a_column_stays_in_the_files(tmp_path: Path) -> None:
    lab = Partitioned.create(tmp_path)
    lab.append(1)
    done = lab.command("run", by=["id"], columns=["id"])
    assert (done.code, "by all of their columns" in done.err) == (65, True), done.err
