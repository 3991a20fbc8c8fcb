"""Verify finds changes that lead to the right rows and break a promise of docs/sinks.md."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from icefloe.batch.verify.verify_batches import verify_batches
from support.pipelines.workshop import Workshop

BATCH = 1


@pytest.fixture
def delivered(workshop: Workshop) -> Workshop:
    """Batch 1 has two steps: two updates, then an update of one of the two rows and an insert."""
    workshop.set(identifier_columns=["id"]).append(range(10))
    workshop.deliver()
    workshop.update([1, 2], value=2.0)
    workshop.update([1], value=3.0)
    workshop.append([100])
    workshop.deliver()
    return workshop


def edit(workshop: Workshop, edited: Callable[[pa.Table], pa.Table]) -> tuple[str, ...]:
    """The report of verify about an edited part; its manifest has the sums of the rows, which stayed."""
    [path] = (workshop.folder / f"changes/batch={BATCH}").glob("part-*.parquet")
    pq.write_table(edited(pq.ParquetFile(path).read()), path)
    found = verify_batches(workshop.session())
    assert found.differing_rows == 0
    assert found.is_equal is not bool(found.sentences)
    return found.sentences


def with_column(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(place), values)


def mapped(name: str, **names: str) -> Callable[[pa.Table], pa.Table]:
    def edited(table: pa.Table) -> pa.Table:
        values = [names.get(value, value) for value in table[name].to_pylist()]
        return with_column(table, name, pa.array(values))

    return edited


def in_order(*columns: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.sort_by([(column, "ascending") for column in columns])


def plus_one(name: str) -> Callable[[pa.Table], pa.Table]:
    def edited(table: pa.Table) -> pa.Table:
        numbers = pc.add(table[name].cast(pa.int64()), 1)
        return with_column(table, name, numbers.cast(table.schema.field(name).type))

    return edited


def updates_of_another_step(table: pa.Table) -> pa.Table:
    """The after image of the first update is said to be of the other step."""
    ordinals = table["_change_ordinal"].to_pylist()
    place = table["_change_type"].to_pylist().index("UPDATE_AFTER")
    other = ordinals.index(1 if ordinals[place] == 0 else 0)
    rows = pa.array([other if row == place else row for row in range(table.num_rows)])
    for name in ("_change_ordinal", "_commit_snapshot_id", "_commit_timestamp"):
        table = with_column(table, name, table[name].take(rows))
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edited", "fault"),
    [
        (mapped("_change_type", UPDATE_BEFORE="DELETE", UPDATE_AFTER="INSERT"), "but its manifest says 1 INSERT"),
        (updates_of_another_step, "the two images of an update are of different steps"),
        (in_order("_change_ordinal"), "the changes of one identity are not in one place of one part"),
        (plus_one("_commit_timestamp"), "a _commit_timestamp differs from its step"),
    ],
)  # fmt: skip
def test_changes_that_break_a_promise_are_found(
    delivered: Workshop, edited: Callable[[pa.Table], pa.Table], fault: str
) -> None:
    assert verify_batches(delivered.session()).is_equal
    found = edit(delivered, edited)
    assert [sentence for sentence in found if fault in sentence], found
    begin = f"batch {BATCH} in file://{delivered.folder}/changes breaks a promise of docs/sinks.md: "
    assert all(sentence.startswith(begin) for sentence in found)


def test_a_change_type_that_is_none_is_a_sentence(delivered: Workshop) -> None:
    [path] = (delivered.folder / f"changes/batch={BATCH}").glob("part-*.parquet")
    pq.write_table(mapped("_change_type", INSERT="UPSERT")(pq.ParquetFile(path).read()), path)
    found = verify_batches(delivered.session())
    assert found.differing_rows == 1
    assert "differs from its manifest" in found.sentences[0]


def test_an_identity_in_two_parts_is_found_in_every_slice(delivered: Workshop) -> None:
    def apart(table: pa.Table) -> pa.Table:
        """The two updates of row 1 are put to both ends."""
        rows = [row for row, number in enumerate(table["id"].to_pylist()) if number == 1]
        others = [row for row in range(table.num_rows) if row not in rows]
        return table.take([*rows[:2], *others, *rows[2:]])

    [first] = edit(delivered, apart)
    assert "the changes of one identity are not in one place of one part" in first
    assert verify_batches(delivered.session(), rows_per_slice=4).sentences == (first,)


def test_without_identifier_columns_only_the_two_images_of_an_update_are_together(workshop: Workshop) -> None:
    workshop.append(range(10))
    workshop.deliver()
    workshop.update([1, 2], value=2.0)
    workshop.deliver()
    assert edit(workshop, lambda table: table.take([2, 3, 0, 1])) == ()


def test_files_that_no_manifest_names_are_a_note(delivered: Workshop) -> None:
    assert verify_batches(delivered.session()).notes == ()
    folder = delivered.folder / f"changes/batch={BATCH}"
    [path] = folder.glob("part-*.parquet")
    (folder / "part-00077.parquet").write_bytes(path.read_bytes())
    found = verify_batches(delivered.session())
    assert found.is_equal
    assert found.notes == (
        f"batch={BATCH} in file://{delivered.folder}/changes has 1 files that no manifest names: do not read them",
    )
