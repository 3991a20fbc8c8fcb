from icefloe.batch.map.hashed_rows import MemoryBudget


def test_bytes_are_taken_only_where_all_of_them_are_left() -> None:
    budget = MemoryBudget(10)
    assert budget.take(4)
    assert not budget.take(7)
    assert budget.free_bytes == 6
    assert budget.take(6)
    assert budget.take(0)
