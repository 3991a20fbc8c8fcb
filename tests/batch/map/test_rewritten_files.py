from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from batch.map.rewritten_pairs import Rewrite, reader, written_pair
from batch.touched_files import touched_file
from icefloe.batch.map.hashed_rows import FileTally, MemoryBudget
from icefloe.batch.map.rewritten_files import FastWay, FileWindow, alignable_pairs, compare_rewritten, rewritten_pairs
from icefloe.batch.rows.file_effects import FileEffects
from support.pipelines.workshop import Workshop
from support.tables.events import rows


def paths(*files: FileEffects) -> list[tuple[str, str]]:
    return [(one.data_file.path, other.data_file.path) for one, other in alignable_pairs(files)]


def test_files_of_one_step_and_length_pair_each_at_most_once() -> None:
    alike = [touched_file(path, 5, (0, sign)) for path, sign in zip("abcde", (1, -1, 1, -1, 1), strict=True)]
    assert paths(*alike) == [("b", "a"), ("d", "c")]
    assert paths(touched_file("a", 5, (0, 1)), touched_file("b", 5, (1, -1))) == []
    assert paths(touched_file("a", 5, (0, 1)), touched_file("b", 6, (0, -1))) == []
    assert paths(touched_file("a", 5, (0, 1), (1, -1)), touched_file("b", 5, (0, -1))) == []


def test_files_of_other_lengths_pair_in_order_if_as_many_were_removed_as_added() -> None:
    removed = [touched_file(path, rows, (0, -1)) for path, rows in (("a", 5), ("b", 6), ("c", 7))]
    added = [touched_file(path, rows, (0, 1)) for path, rows in (("d", 6), ("e", 4), ("f", 8))]
    pairs = [(one.data_file.path, other.data_file.path) for one, other in rewritten_pairs([*removed, *added])]
    assert pairs == [("b", "d"), ("a", "e"), ("c", "f")]
    assert [*rewritten_pairs([*removed, added[1]])] == []


@pytest.mark.parametrize("memory_bytes", [1 << 20, 600, 3])
def test_rows_that_differ_are_left_and_kept_within_the_budget(workshop: Workshop, memory_bytes: int) -> None:
    workshop.append(range(100))
    workshop.deliver()
    workshop.replace(rows(range(100)).set_column(1, "value", pa.array([1.0] * 99 + [2.0])))
    batch = workshop.open()
    of_table, budget = batch.inputs.row_reader(), MemoryBudget(memory_bytes)
    found = [*compare_rewritten(batch.inputs.file_effects(0), of_table, ways=(FastWay.ALIGNED,), budget=budget)]
    if memory_bytes == 3:
        assert found == []
        assert budget.free_bytes == 3
        return
    [(way, *pair)] = found
    assert way is FastWay.ALIGNED
    assert [len(each.hashes) for each in pair] == [1, 1]
    assert 0 <= budget.free_bytes < memory_bytes


def test_few_rows_that_are_left_do_not_keep_the_batch_that_they_were_read_with(tmp_path: Path) -> None:
    removed, _, _, _ = written_pair(tmp_path, Rewrite(seed=5, rows=2_000, keys=10_000, group_rows=(2_000, 2_000)))
    window = FileWindow(FileTally(removed), reader(), MemoryBudget(1 << 30), most_left_rows=4_000)
    assert window.fill()
    whole_bytes = window.window.nbytes
    window.finish(1_990, np.zeros(0, np.int64))
    assert window.leave_rest()
    [kept] = window.remaining.hashed_rows().kept or []
    assert kept.num_rows == 10
    # Buffers of a slice are counted whole.
    assert kept.get_total_buffer_size() < whole_bytes / 10
