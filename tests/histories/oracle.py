"""The changes that a range must have: differences of the states that Iceberg's own readers give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from histories.states import State
from histories.trace import ExpectedStep
from support.spark.row_counts import Row, difference

__all__ = ["net_changes", "row_id_pairs", "step_weights", "typed_by_key"]


def step_weights(steps: Iterable[ExpectedStep], states: State) -> list[Counter[Row]]:
    """The signed count of each row that changed, of each step."""
    return [difference(states(step.start), states(step.end)) for step in steps]


def typed_by_key(weights: Counter[Row], key_indices: Sequence[int] | None) -> Counter[Row]:
    """The number of changes of each type that each key must have: as many updates as there are pairs.

    >>> typed_by_key(Counter({(1, "a"): -1, (1, "b"): 2}), [0])
    Counter({('UPDATE_BEFORE', 1): 1, ('UPDATE_AFTER', 1): 1, ('INSERT', 1): 1})
    """
    gone, came = Counter[Row](), Counter[Row]()
    for row, weight in weights.items():
        key = row if key_indices is None else tuple(row[index] for index in key_indices)
        (came if weight > 0 else gone)[key] += abs(weight)
    expected: Counter[Row] = Counter()
    for key in gone | came:
        pairs = 0 if key_indices is None else min(gone[key], came[key])
        expected["UPDATE_BEFORE", *key] = expected["UPDATE_AFTER", *key] = pairs
        expected["DELETE", *key], expected["INSERT", *key] = gone[key] - pairs, came[key] - pairs
    return +expected


def net_changes(
    steps: Sequence[Counter[Row]], key_indices: Sequence[int] | None
) -> tuple[Counter[Row], dict[Row, int]]:
    """The sum of a range, and the ordinal at which each key (or row) really changed last."""
    total: Counter[Row] = Counter()
    last: dict[Row, int] = {}
    for ordinal, weights in enumerate(steps):
        for row, weight in weights.items():
            total[row] += weight
            last[row if key_indices is None else tuple(row[index] for index in key_indices)] = ordinal
    return Counter({row: weight for row, weight in total.items() if weight}), last


def row_id_pairs(start: Mapping[int, Row], end: Mapping[int, Row]) -> Counter[tuple[Row, Row]] | None:
    """The updates that row ids tell, before and after; None where some of equal rows changed, so that it is open which.

    >>> row_id_pairs({7: ("a",), 8: ("b",)}, {7: ("A",), 9: ("b",)})
    Counter({(('a',), ('A',)): 1})
    """
    before, after = Counter(start.values()), Counter(end.values())
    weights = difference(before, after)
    common = start.keys() & end.keys()
    pairs = Counter((start[row_id], end[row_id]) for row_id in common if start[row_id] != end[row_id])
    is_open = any(before[row] and after[row] for row in weights)
    # A row that one id lost and another got did not change.
    return None if is_open or any(row not in weights for pair in pairs for row in pair) else pairs
