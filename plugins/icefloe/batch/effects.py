"""The effects that are left of a group of files once equal rows of opposite sign have cancelled."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from icefloe.batch.candidates import Candidates
from icefloe.batch.changed_rows import Effect
from icefloe.batch.document import FileWork
from icefloe.changes.consolidate import surviving_rows
from icefloe.changes.row_hash import RowHashes

__all__ = ["contended_ordinals", "effects_left"]


def contended_ordinals(files: Sequence[FileWork]) -> frozenset[int]:
    """The ordinals in which rows of these files can cancel one for one.

    A file that a step lists more than once (it has a greater weight) leaves the cancelling to the reduce side.
    """
    weights: dict[int, set[int]] = {}
    for work in files:
        for ordinal, weight in work.weights:
            weights.setdefault(ordinal, set()).add(weight)
    return frozenset(ordinal for ordinal, found in weights.items() if found == {-1, 1})


def effects_left(candidates: Sequence[Candidates], contended: frozenset[int]) -> list[list[Effect]]:
    """For each file its effects: in contended ordinals on the candidates that survive, in others on all of them."""
    effects = [
        [
            Effect(change_ordinal=ordinal, weight=weight)
            for ordinal, weight in file.work.weights
            if ordinal not in contended
        ]
        for file in candidates
    ]
    for ordinal in sorted(contended):
        sides = [
            [index for index, file in enumerate(candidates) if file.weight_in(ordinal) == weight] for weight in (-1, 1)
        ]
        surviving = surviving_rows(*(RowHashes.concat([candidates[index].hashes for index in side]) for side in sides))
        for side, weight, positions in zip(sides, (-1, 1), surviving, strict=True):
            bounds = np.cumsum([0, *(len(candidates[index].hashes) for index in side)])
            cuts = pairwise(np.searchsorted(positions, bounds))
            for index, start, (first, last) in zip(side, bounds[:-1], cuts, strict=True):
                effects[index].append(
                    Effect(change_ordinal=ordinal, weight=weight, positions=positions[first:last] - start)
                )
    return effects
