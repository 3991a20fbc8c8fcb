"""The effects of terms on data files against their sum, row by row."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from batch.touched_files import touched_file
from icefloe.batch.plan_document import DeleteState, FileTerms
from icefloe.batch.rows.file_effects import Effect, FileEffects, TermEffects

ROWS = 6
FILE = touched_file("a", ROWS).data_file
DELETED = {0: {0}, 1: {1, 2}, 2: {0, 2, 5}, 3: set(range(ROWS)), 4: set[int]()}
"""The positions that each delete file deletes."""
STATES = [frozenset[int](), frozenset({0}), frozenset({0, 1}), frozenset({1, 2}), frozenset({3}), frozenset({4})]
TERMS = st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 2), st.integers(0, len(STATES) - 1)), max_size=5)


def prepared(terms: Iterable[tuple[int, int, int]]) -> TermEffects:
    differences = [
        DeleteState(added=tuple(after - before), dropped=tuple(before - after)) for before, after in pairwise(STATES)
    ]
    return TermEffects(FileTerms(terms=tuple(sorted(terms)), delete_states=tuple(differences)))


def deleted_by(places: Iterable[int]) -> dict[int, BitMap64]:
    return {place: BitMap64(DELETED[place]) for place in places}


def row_weights(effects: Iterable[Effect]) -> dict[tuple[int, int], int]:
    """The weight of each row by ordinal and position."""
    weights: dict[tuple[int, int], int] = {}
    for effect in effects:
        positions = effect.rows.among(np.arange(ROWS)).tolist()
        assert effect.weight
        assert len(positions) == effect.rows.count(ROWS) > 0
        for position in positions:
            assert (effect.change_ordinal, position) not in weights
            weights[effect.change_ordinal, position] = effect.weight
    return weights


@given(TERMS, st.lists(st.sets(st.sampled_from(sorted(DELETED))), min_size=1, max_size=3))
def test_each_row_of_files_that_share_terms_has_the_weights_of_the_terms_in_which_it_is_live(
    terms: list[tuple[int, int, int]], deleting: list[set[int]]
) -> None:
    together = prepared(terms)
    for some in deleting:
        expected = Counter[tuple[int, int]]()
        for ordinal, weight, state in terms:
            gone = set[int]().union(*(DELETED[place] for place in STATES[state] & some))
            for position in set(range(ROWS)) - gone:
                expected[ordinal, position] += weight
        effects = together.on(ROWS, lambda places, some=some: deleted_by(some.intersection(places)))  # type: ignore[misc]
        assert row_weights(effects) == {key: weight for key, weight in expected.items() if weight}
        touched = FileEffects(data_file=FILE, effects=effects).touched.among(np.arange(ROWS)).tolist()
        assert touched == sorted({position for (_, position), weight in expected.items() if weight})
        assert [effect.change_ordinal for effect in effects] == sorted(effect.change_ordinal for effect in effects)
