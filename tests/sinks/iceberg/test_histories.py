"""Random histories, cut into batches at random, leave the same rows in a mirror of any layout."""

from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from icefloe.changes.columns import ChangeColumns
from icefloe.testing.staged_history import FLIGHTS, Row, StagedHistory, Step
from sinks.iceberg.lakes import NAME, Lake

KEYS: Final = 7
COLUMNS = Schema(
    NestedField(1, "word", StringType()), NestedField(2, "number", IntegerType()), NestedField(3, "id", LongType())
)
LAYOUTS: Final = [
    (),
    (PartitionField(1, 1000, TruncateTransform(1), "w"),),
    (PartitionField(2, 1000, IdentityTransform(), "n"),),
    (PartitionField(3, 1000, BucketTransform(3), "b"), PartitionField(2, 1001, IdentityTransform(), "n")),
]


def step(random: Random) -> Step:
    """A commit that sets or deletes some keys, to nulls and back, and to rows that they had before."""
    values: Row = {"word": random.choice([None, "", "a", "ab"]), "number": random.choice([None, 0, 1])}
    return {key: random.choice([None, values]) for key in random.sample(range(KEYS), random.randrange(1, 4))}


def deliver(lake: Lake, seed: int, *, cut: int) -> StagedHistory:
    """The same steps for each seed, in other batches for each cut."""
    random, cuts = Random(seed), Random(cut)
    history = StagedHistory(identity=() if lake.takes_whole_rows else ("id",))
    lake.deliver(*history.load({key: {"word": "a", "number": 0} for key in range(KEYS)}))
    steps = [step(random) for _ in range(12)]
    while steps:
        size = cuts.randrange(0, 5)
        if cuts.random() < 0.2 and size:
            # Somebody compacts the target, and its deletes are gone.
            rows = lake.table.scan().to_arrow()
            lake.table.overwrite(rows.take(pa.array(cuts.sample(range(rows.num_rows), rows.num_rows), pa.int64())))
        lake.deliver(history.change(*steps[:size]))
        steps = steps[size:]
    return history


def rows_of(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.table.scan(selected_fields=tuple(FLIGHTS.names)).to_arrow().to_pylist(), key=lambda r: r["id"])


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.extended) for seed in range(4, 60))]
)
def test_a_mirror_is_equal_to_the_source_however_the_history_is_cut(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    mode = random.choice(["merge-on-read", "copy-on-write"])
    layout, version = PartitionSpec(*random.choice(LAYOUTS)), random.choice(["1", "2", "2"])
    takes_whole_rows, found = random.choice([False, False, True]), []
    for cut in (2 * seed, 2 * seed + 1):
        (tmp_path / str(cut)).mkdir()
        lake = Lake.create(tmp_path / str(cut), mode="mirror")
        lake.takes_whole_rows = takes_whole_rows
        properties = {"write.merge.mode": mode, "format-version": version}
        lake.catalog.create_table(NAME, COLUMNS, partition_spec=layout, properties=properties)
        history = deliver(lake, seed, cut=cut)
        assert rows_of(lake) == [dict(history.rows[key]) for key in sorted(history.rows)]
        found.append(rows_of(lake))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.extended) for seed in range(2, 12))]
)
def test_a_changelog_has_every_change_however_the_history_is_cut(seed: int, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    history = deliver(lake, seed, cut=seed)
    schema = ChangeColumns.schema(FLIGHTS, with_batch=True)
    read = [row for rows in lake.sink().read_back(schema) for row in rows.to_pylist()]
    for key in range(KEYS):
        assert [row for row in read if row["id"] == key] == [dict(c) for c in history.changes if c["id"] == key]
