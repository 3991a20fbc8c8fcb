"""Effects of a group of files that are left after equal rows of opposite sign have cancelled."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from icefloe.batch.map.hashed_rows import HashedRows
from icefloe.batch.rows.file_effects import FileRows
from icefloe.batch.rows.row_set import RowSet
from icefloe.batch.rows.weighted_rows import Effect
from icefloe.changes.consolidate import surviving_rows
from icefloe.changes.row_hash.row_hashes import RowHashes


def contended_ordinals(files: Sequence[FileRows]) -> frozenset[int]:
    """The ordinals in which rows of these files can cancel one for one.

    If a step lists a file more than once, the file has a greater weight, and the cancelling is left to the reduce side.
    """
    weights: dict[int, set[int]] = {}
    for file in files:
        for effect in file.effects:
            weights.setdefault(effect.change_ordinal, set()).add(effect.weight)
    return frozenset(ordinal for ordinal, found in weights.items() if found == {-1, 1})


def effects_left(hashed_rows: Sequence[HashedRows], contended: frozenset[int]) -> list[list[Effect]]:
    """The effects of each file: on the surviving candidates in contended ordinals, unchanged in the others."""
    effects = [[effect for effect in file.effects if effect.change_ordinal not in contended] for file in hashed_rows]
    for ordinal in sorted(contended):
        # Of a side, the rows of all files are compared end to end, then cut back to their files:
        #   added rows   a: 0 1 2   b: 0 1      bounds 0 3 5
        #   surviving    1, 4                   row 1 of a, row 1 of b
        sides = [[*_rows_of(hashed_rows, ordinal, weight)] for weight in (-1, 1)]
        surviving = surviving_rows(
            *(RowHashes.concat([hashed_rows[index].hashes.take(rows) for index, rows in side]) for side in sides)
        )
        for side, weight, positions in zip(sides, (-1, 1), surviving, strict=True):
            bounds = np.cumsum([0, *(len(rows) for _, rows in side)])
            cuts = pairwise(np.searchsorted(positions, bounds))
            for (index, rows), start, (first, last) in zip(side, bounds[:-1], cuts, strict=True):
                left = RowSet(positions=rows[positions[first:last] - start])
                effects[index].append(Effect(change_ordinal=ordinal, weight=weight, rows=left))
    return effects


def _rows_of(hashed_rows: Sequence[HashedRows], ordinal: int, weight: int) -> list[tuple[int, np.ndarray]]:
    """Pairs of a file's index and its candidates, for one step and sign."""
    return [
        (index, effect.rows.among(np.arange(len(file.hashes))))
        for index, file in enumerate(hashed_rows)
        for effect in file.effects
        if (effect.change_ordinal, effect.weight) == (ordinal, weight)
    ]
