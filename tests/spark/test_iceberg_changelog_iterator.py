"""The cases of Iceberg's TestChangelogIterator (1.11.0), for rows in memory: the same rows in, the same changes out.

Iceberg's own iterators run side by side, in the JVM. Where icefloe differs, docs/cases.md says why, under "Where
icefloe differs from create_changelog_view".

| Iceberg's test | here |
|---|---|
| testIterator | test_deletes_inserts_updates_and_carry_over_in_every_order |
| testRowsWithNullValue | test_nulls_in_rows_and_in_identities |
| testUpdatedRowsWithDuplication | test_duplicates_of_an_identity_are_paired (differs),
  test_an_insert_beyond_the_pairs_stays_an_insert |
| testCarryRowsRemoveWithDuplicates, testCarryRowsRemoveLessInsertRows, testCarryRowsRemoveMoreInsertRows,
  testCarryRowsRemoveNoInsertRows | test_equal_rows_cancel_by_their_number |
| testRemoveNetCarryovers | test_net_changes_cancel_across_steps |
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from changes.hash_values import KEY
from icefloe.changes.columns import ChangeType
from icefloe.changes.consolidate import consolidate
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.changes.updates import net_changes, pair_updates
from support.spark.spark_lab import SparkLab

pytestmark = pytest.mark.spark

Change = tuple[int, str | None, str | None, str, int]
Iterators = Callable[..., Counter[Change]]
TYPES = [pa.int32(), pa.string(), pa.string()]
IDENTIFIERS = ["id", "name"]
DATA = "d", "data"


@pytest.fixture(scope="module")
def iceberg(spark_lab: SparkLab) -> Iterators:
    """Runs a method of Iceberg's ChangelogIterator over changes in their order."""
    jvm: Any = spark_lab.spark._jvm
    column = "id int, name string, data string, _change_type string, _change_ordinal int, _commit_snapshot_id bigint"
    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(column)

    def array(kind: Any, values: Sequence[Any]) -> Any:
        made = spark_lab.spark.sparkContext._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    def run(method: str, changes: Sequence[Change], *identifiers: str) -> Counter[Change]:
        rows = jvm.java.util.ArrayList()
        for change in changes:
            rows.add(jvm.org.apache.spark.sql.RowFactory.create(array(jvm.java.lang.Object, [*change, change[-1]])))
        names = [array(jvm.java.lang.String, identifiers)] if identifiers else []
        iterator = getattr(jvm.org.apache.iceberg.spark.ChangelogIterator, method)(rows.iterator(), schema, *names)
        found: Counter[Change] = Counter()
        while iterator.hasNext():
            row = iterator.next()
            found[tuple(row.get(index) for index in range(len(TYPES) + 2))] += 1
        return found

    return run


def changes_of(changes: Sequence[Change], *, identifiers: bool, net: bool = False) -> Counter[Change]:
    """icefloe's changes of the same rows: consolidated, netted and paired by id and name if asked."""
    columns = [pa.array(values, kind) for values, kind in zip(list(zip(*changes, strict=True))[:3], TYPES, strict=True)]
    hashes = RowHashes.of(columns, key=KEY)
    ordinals = np.array([change[-1] for change in changes], np.int32)
    kept, weights = consolidate(hashes, ordinals, np.array([1 if c[3] == "INSERT" else -1 for c in changes], np.int64))
    ordinals = ordinals[kept]
    identities = RowHashes.of(columns[:2], key=KEY) if identifiers else None
    if net:
        left, weights, ordinals = net_changes(
            row_hashes=hashes.take(kept),
            identity_hashes=identities and identities.take(kept),
            change_ordinals=ordinals,
            weights=weights,
        )
        kept = kept[left]
    taken, types = pair_updates(
        row_hashes=hashes.take(kept),
        identity_hashes=identities and identities.take(kept),
        change_ordinals=ordinals,
        weights=weights,
        order_of=hashes.take(kept).take,
    )
    return Counter(
        (*changes[kept[row]][:3], ChangeType(code).name, int(ordinals[row]))
        for row, code in zip(taken, types, strict=True)
    )


def test_deletes_inserts_updates_and_carry_over_in_every_order(iceberg: Iterators) -> None:
    kinds = {
        "deleted": [("b", "data", "DELETE")],
        "inserted": [("c", "data", "INSERT")],
        "carried over": [("d", "data", "DELETE"), ("d", "data", "INSERT")],
        "updated": [("a", "data", "DELETE"), ("a", "new data", "INSERT")],
    }
    told = {**kinds, "carried over": [], "updated": [("a", "data", "UPDATE_BEFORE"), ("a", "new data", "UPDATE_AFTER")]}
    for order in permutations(kinds):
        rows, expected = (
            [(index, *row, 0) for index, kind in enumerate(order) for row in source[kind]] for source in (kinds, told)
        )
        assert changes_of(rows, identifiers=True) == Counter(expected)
        assert iceberg("computeUpdates", rows, *IDENTIFIERS) == Counter(expected)


def test_nulls_in_rows_and_in_identities(iceberg: Iterators) -> None:
    gone, came = (2, None, None, "DELETE", 0), (3, None, None, "INSERT", 0)
    carried_over = [(4, None, None, "DELETE", 0), (4, None, None, "INSERT", 0)]
    updated = [(5, None, None, "DELETE", 0), (5, None, "data", "INSERT", 0)]
    other_identity = [(6, None, None, "DELETE", 0), (6, "name", None, "INSERT", 0)]
    rows = [gone, came, *carried_over, *updated, *other_identity]
    images = [(5, None, None, "UPDATE_BEFORE", 0), (5, None, "data", "UPDATE_AFTER", 0)]
    expected = Counter([gone, came, *images, *other_identity])
    assert changes_of(rows, identifiers=True) == iceberg("computeUpdates", rows, *IDENTIFIERS) == expected


def test_duplicates_of_an_identity_are_paired(iceberg: Iterators) -> None:
    rows = [(1, "a", "data", "DELETE", 0)] * 2 + [(1, "a", "new data", "INSERT", 0)] * 2
    images = {(1, "a", "data", "UPDATE_BEFORE", 0): 2, (1, "a", "new data", "UPDATE_AFTER", 0): 2}
    assert changes_of(rows, identifiers=True) == Counter(images)
    with pytest.raises(Exception, match=r"multiple rows with the same identifier fields\(\[id,name\]\)"):
        iceberg("computeUpdates", rows, *IDENTIFIERS)


def test_an_insert_beyond_the_pairs_stays_an_insert(iceberg: Iterators) -> None:
    inserts = [(1, "a", f"new data {number}", "INSERT", 0) for number in (1, 2)]
    rows = [(1, "a", "data", "DELETE", 0), *inserts]
    found = changes_of(rows, identifiers=True)
    assert Counter(change[3] for change in found) == {"UPDATE_BEFORE": 1, "UPDATE_AFTER": 1, "INSERT": 1}
    assert {change[2] for change in found if change[3] != "UPDATE_BEFORE"} == {"new data 1", "new data 2"}
    # Iceberg pairs the insert that comes first; here the rows' hashes decide.
    theirs = iceberg("computeUpdates", rows, *IDENTIFIERS)
    assert Counter(change[3] for change in theirs) == Counter(change[3] for change in found)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {(0, "a", "data"): (3, 0), (1, "a", "old"): (2, 0), (2, "a", "data"): (2, 2), (3, "a", "new"): (0, 1)},
            {(0, "a", "data"): -3, (1, "a", "old"): -2, (3, "a", "new"): 1},
        ),
        ({(1, *DATA): (2, 1), (2, *DATA): (0, 1)}, {(1, *DATA): -1, (2, *DATA): 1}),
        ({(0, *DATA): (1, 0), (1, *DATA): (3, 4)}, {(0, *DATA): -1, (1, *DATA): 1}),
        ({(1, *DATA): (2, 0)}, {(1, *DATA): -2}),
    ],
    ids=["duplicates", "fewer inserts", "more inserts", "no inserts"],
)
def test_equal_rows_cancel_by_their_number(
    iceberg: Iterators, counts: dict[Any, tuple[int, int]], expected: dict[Any, int]
) -> None:
    rows = list(
        chain.from_iterable(
            [(*row, "DELETE", 0)] * deletes + [(*row, "INSERT", 0)] * inserts
            for row, (deletes, inserts) in counts.items()
        )
    )
    left = Counter({(*row, "INSERT" if weight > 0 else "DELETE", 0): abs(weight) for row, weight in expected.items()})
    assert changes_of(rows, identifiers=False) == iceberg("removeCarryovers", rows) == left
    assert changes_of(rows, identifiers=False, net=True) == iceberg("removeNetCarryovers", rows) == left


def test_net_changes_cancel_across_steps(iceberg: Iterators) -> None:
    row = 1, *DATA
    rows = [
        (0, *DATA, "DELETE", 0),
        *[(*row, "DELETE", 0), (*row, "INSERT", 0)],
        *[(*row, "DELETE", 1)] * 2,
        *[(*row, "INSERT", 1)] * 2,
        *[(*row, "INSERT", 2), (*row, "DELETE", 3)],
        *[(*row, "INSERT", 4)] * 2,
        (2, *DATA, "DELETE", 4),
    ]
    left = Counter({(0, *DATA, "DELETE", 0): 1, (*row, "INSERT", 4): 2, (2, *DATA, "DELETE", 4): 1})
    assert changes_of(rows, identifiers=False, net=True) == iceberg("removeNetCarryovers", rows) == left
