"""Random histories leave the same tables however they are cut into batches, and whoever works on the tables meanwhile.

ICEFLOE_SEEDS=0:1000 names the seeds; each is tried in one mode.
"""

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadataCommonFields
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from icefloe.changes.columns import ChangeColumns
from sinks.iceberg.lakes import NAME, Lake
from support.sinks.cut_histories import Cut, RandomHistory, instants, schema_of, seeds, shown

COLUMNS: Final = Schema(
    NestedField(1, "word", StringType()), NestedField(2, "number", IntegerType()), NestedField(3, "id", LongType())
)
LAYOUTS: Final = [
    (),
    (PartitionField(1, 1000, TruncateTransform(1), "w"),),
    (PartitionField(2, 1000, IdentityTransform(), "n"),),
    (PartitionField(3, 1000, BucketTransform(3), "b"), PartitionField(2, 1001, IdentityTransform(), "n")),
]
MODES: Final = ("mirror", "history", "rows", "changelog")
Rows = list[dict[str, Any]]


class Others:
    """Work of others on a target: all that leaves its rows as they are."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.count = lake, 0

    def work(self, random: Random) -> None:
        random.choice([self.compact, self.expire, self.column, self.spec, self.branch, self.empty])(random)

    def at_a_commit(self, random: Random) -> None:
        """At once, or right before the next commit."""
        if random.random() < 0.5:
            self.work(random)
        else:
            self.lake.between.append(lambda: self.work(random))

    def compact(self, random: Random) -> None:
        rows = self.lake.table.scan().to_arrow()
        if rows.num_columns:
            order = random.sample(range(rows.num_rows), rows.num_rows)
            self.lake.table.overwrite(rows.take(pa.array(order, pa.int64())))

    def expire(self, _random: Random) -> None:
        table = self.lake.table
        heads = {each.snapshot_id for each in table.metadata.refs.values()}
        gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in heads]
        if gone:
            table.maintenance.expire_snapshots().by_ids(gone).commit()

    def column(self, _random: Random) -> None:
        self.count += 1
        with self.lake.table.update_schema() as update:
            update.add_column(f"note_{self.count}", StringType())

    def spec(self, random: Random) -> None:
        """Another number of buckets of the key."""
        table = self.lake.table
        # PyIceberg writes no table of version 1 whose field was removed, and stays as void.
        if "id" in table.schema().column_names and table.metadata.format_version > 1:
            self.count += 1
            with table.update_spec() as update:
                for each in table.spec().fields:
                    if each.name.startswith("b"):
                        update.remove_field(each.name)
                update.add_field("id", BucketTransform(random.randrange(2, 99)), f"b_{self.count}")

    def branch(self, _random: Random) -> None:
        self.count += 1
        head = self.lake.table.metadata.current_snapshot_id
        if head is not None:
            self.lake.table.manage_snapshots().create_branch(head, f"other_{self.count}").commit()
            rows = self.lake.table.scan().to_arrow()
            if rows.num_columns:
                self.lake.table.append(rows.slice(0, 1), branch=f"other_{self.count}")

    def empty(self, _random: Random) -> None:
        table = self.lake.table
        transaction = Transaction(table)
        with transaction._append_snapshot_producer({}):
            pass
        self.lake.catalog.commit_table(table, transaction._requirements, transaction._updates)


@pytest.fixture(autouse=True)
def _shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg copies all metadata at each look at a transaction, in half of the time of these tests."""
    monkeypatch.setattr(TableMetadataCommonFields, "__deepcopy__", lambda self, _memo=None: self.__copy__())


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported", "ignore:Delete operation did not match")
@pytest.mark.parametrize("seed", seeds(4, 24))
def test_a_table_ends_the_same_however_the_history_is_cut(seed: int, tmp_path: Path) -> None:
    random, mode = Random(seed), MODES[seed % len(MODES)]
    # Of a column that is gone when a batch is cut, nothing is left, not even a version of a row.
    drops = mode != "history" or random.random() < 0.5
    source = RandomHistory(Random(seed), is_keyed_by_code=mode != "rows" and random.random() < 0.5, drops=drops)
    properties = {"write.merge.mode": random.choice(["merge-on-read", "copy-on-write"])}
    version, layout = random.choice(["1", "2", "2"]), PartitionSpec(*random.choice(LAYOUTS))
    is_made, hides_id = random.random() < 0.7, mode == "rows" and random.random() < 0.5
    found = []
    for cut in (2 * seed, 2 * seed + 1):
        lake = Lake.create(tmp_path / str(cut), mode={"rows": "mirror"}.get(mode, mode))
        lake.takes_whole_rows = mode == "rows"
        if is_made:
            given = {**properties, "format-version": version}
            lake.catalog.create_table(NAME, COLUMNS, partition_spec=layout, properties=given)
        others = Others(lake)
        brought = Cut(
            source, Random(cut), lake.sink, others.at_a_commit,
            hidden=("id",) if hides_id else (), identity=() if mode == "rows" else None,
        )  # fmt: skip
        history = brought.deliver()
        assert history.rows == {
            key: {"id": key, **(shown(row, source.columns) or {})} for key, row in source.states[-1].items()
        }
        if mode == "changelog":
            require_changes(lake, brought)
        else:
            found.append(rows_of(lake, history.shown))
            assert found[-1] == in_order(history.rows.values(), history.shown)
        if mode == "history":
            require_states(lake, source)
            found[-1] = found[-1] if drops else intervals(lake, history.shown)
    assert found[:1] == found[1:]


def rows_at(source: RandomHistory, number: int) -> Rows:
    """The rows of a state, in the columns of the last one."""
    return [{"id": key, **(shown(row, source.columns) or {})} for key, row in source.states[number].items()]


def in_order(rows: Any, schema: pa.Schema) -> list[str]:
    return sorted(repr({name: row[name] for name in schema.names}) for row in rows)


def rows_of(lake: Lake, schema: pa.Schema) -> list[str]:
    return in_order((row for rows in lake.sink().read_back(schema) for row in rows.to_pylist()), schema)


def require_changes(lake: Lake, brought: Cut) -> None:
    """Since the last load, in the columns that each batch had."""
    read = lake.sink().read_back_as_written(brought.schemas.__getitem__)
    rows = [row for each in read for row in each.to_pylist() if row[ChangeColumns.BATCH] >= brought.first_batch]
    for key in range(13):
        assert [each for each in rows if each["id"] == key] == [
            dict(c) for c in brought.history.changes if c["id"] == key
        ]


def versions(lake: Lake, schema: pa.Schema) -> Rows:
    names = (*schema.names, "valid_from", "valid_to", "is_current")
    rows = lake.table.scan(selected_fields=names).to_arrow().to_pylist()
    return [{name: row[name] for name in names} for row in rows]


def intervals(lake: Lake, schema: pa.Schema) -> list[str]:
    return sorted(map(repr, versions(lake, schema)))


def require_states(lake: Lake, source: RandomHistory) -> None:
    """At each entry of the log the history is the table."""
    schema = schema_of(source.columns)
    found = versions(lake, schema)
    assert all((each["valid_to"] is None) == each["is_current"] for each in found)
    for time_ms, number in instants(source):
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
        valid = [row for row in found if row["valid_from"] <= at and (row["valid_to"] is None or at < row["valid_to"])]
        assert in_order(valid, schema) == in_order(rows_at(source, number), schema)
