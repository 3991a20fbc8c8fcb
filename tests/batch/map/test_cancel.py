from batch.touched_files import touched_file
from icefloe.batch.map.carryover import contended_ordinals
from icefloe.batch.rows.file_effects import FileEffects


def work(*weights: tuple[int, int]) -> FileEffects:
    return touched_file("a", 1, *weights)


def test_rows_can_cancel_in_the_ordinals_that_have_both_signs() -> None:
    assert contended_ordinals([work((0, 1)), work((0, 1), (1, -1)), work((1, 1)), work((2, -1))]) == {1}


def test_a_weight_beyond_one_keeps_its_ordinal_out() -> None:
    assert contended_ordinals([work((0, 2)), work((0, -1)), work((0, 1))]) == frozenset()
