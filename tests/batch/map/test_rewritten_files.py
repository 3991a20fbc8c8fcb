import pyarrow as pa

from batch.touched_files import touched_file
from icefloe.batch.map.hashed_rows import MemoryBudget
from icefloe.batch.map.rewritten_files import align, alignable_pairs
from icefloe.batch.rows.file_effects import FileRows
from support.pipelines.workshop import Workshop
from support.tables.events import rows


def paths(*files: FileRows) -> list[tuple[str, str]]:
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


def test_rows_that_differ_are_kept_within_the_budget_or_not_at_all(workshop: Workshop) -> None:
    workshop.append(range(100))
    workshop.deliver()
    workshop.replace(rows(range(100)).set_column(1, "value", pa.array([1.0] * 99 + [2.0])))
    batch = workshop.open()
    removed, added = sorted(batch.inputs.file_rows(0), key=lambda each: each.effects[0].weight)
    reader = batch.inputs.row_reader()
    assert align(removed, added, reader, budget=MemoryBudget(3)) is None
    budget = MemoryBudget(1 << 20)
    pair = align(removed, added, reader, budget=budget)
    assert pair is not None
    assert [len(each.hashes) for each in pair] == [1, 1]
    assert budget.free_bytes < 1 << 20
