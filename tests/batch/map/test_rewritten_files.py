import pyarrow as pa
import pytest

from batch.touched_files import touched_file
from icefloe.batch.fast_ways import FastWay
from icefloe.batch.map.hashed_rows import MemoryBudget
from icefloe.batch.map.rewritten_files import alignable_pairs, compare_rewritten, rewritten_pairs
from icefloe.batch.rows.file_effects import FileEffects
from support.pipelines.workshop import Workshop
from support.tables.events import rows


def paths(*files: FileEffects) -> list[tuple[str, str]]:
    return [(one.data_file.path, other.data_file.path) for one, other in alignable_pairs(files)]


def test_files_of_one_step_and_length_pair_each_at_most_once() -> None:
    assert paths(
        touched_file("a", 5, (0, 1)),
        touched_file("b", 5, (0, -1)),
        touched_file("c", 5, (0, 1)),
        touched_file("d", 5, (0, -1)),
        touched_file("e", 5, (0, 1)),
    ) == [("b", "a"), ("d", "c")]


def test_files_of_other_steps_or_lengths_or_of_several_steps_do_not_pair() -> None:
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
    reader, budget = batch.inputs.row_reader(), MemoryBudget(memory_bytes)
    found = [*compare_rewritten(batch.inputs.file_effects(0), reader, ways=(FastWay.ALIGNED,), budget=budget)]
    if memory_bytes == 3:
        assert found == []
        assert budget.free_bytes == 3
        return
    [(way, *pair)] = found
    assert way is FastWay.ALIGNED
    assert [len(each.hashes) for each in pair] == [1, 1]
    assert 0 <= budget.free_bytes < memory_bytes
