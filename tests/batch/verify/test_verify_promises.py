"""Verify finds changes that lead to the right rows and break a promise of docs/sinks.md."""

from collections.abc import Callable

import pyarrow as pa
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


def test_an_identity_in_two_parts_is_found_in_every_slice(delivered: Workshop) -> None:
    def apart(table: pa.Table) -> pa.Table:
        """The two updates of row 1 are put to both ends."""
        rows = [row for row, number in enumerate(table["id"].to_pylist()) if number == 1]
        others = [row for row in range(table.num_rows) if row not in rows]
        return table.take([*rows[:2], *others, *rows[2:]])

    [first] = edit(delivered, apart)
    assert "the changes of one identity are not in one place of one part" in first
    assert verify_batches(delivered.session(), rows_per_slice=4).sentences == (first,)


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
