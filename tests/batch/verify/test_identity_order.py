import numpy as np
import pyarrow as pa
import pytest

from changes.hash_values import KEY
from icefloe.batch.verify.promises import IdentityOrder
from icefloe.changes.columns import ChangeType
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import row_hashes

N, D, B, A = ChangeType
APART = "the changes of one identity are not in one place of one part"
UNORDERED = "the changes of one identity are not in the order of their ordinals"
UNPAIRED = "rows of one identity went and came in one step, and are no update"


def faults(*parts: list[tuple[int, int, ChangeType]], at_once: int, part: HashSlice | None = None) -> list[str]:
    """Of parts of (identity, ordinal, type), added some changes at a time."""
    runs = IdentityOrder(part or HashSlice())
    for changes in parts:
        for start in range(0, len(changes), at_once):
            keys, ordinals, types = zip(*changes[start : start + at_once], strict=True)
            runs.add(row_hashes([pa.array(keys)], key=KEY), np.array(ordinals, np.int32), np.array(types, np.int8))
        runs.end_part()
    return runs.faults()


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([[(1, 0, B), (1, 0, A), (1, 1, D), (2, 0, N), (2, 1, D)], [(3, 0, D), (4, 0, N)]], []),
        ([[(1, 0, N), (1, 0, N), (1, 1, D), (1, 2, N)]], []),
        ([[(1, 0, N), (2, 0, N), (1, 1, D)]], [APART]),
        ([[(1, 0, N)], [(1, 1, D)]], [APART]),
        ([[(1, 1, N), (1, 0, D)]], [UNORDERED]),
        ([[(1, 0, D), (1, 0, N)]], [UNPAIRED]),
        ([[(1, 0, B), (1, 0, A), (1, 0, D), (1, 0, N)]], [UNPAIRED]),
    ],
)
def test_changes_of_an_identity_are_together_in_order_and_paired(
    parts: list[list[tuple[int, int, ChangeType]]], expected: list[str], at_once: int
) -> None:
    assert faults(*parts, at_once=at_once) == expected


def test_each_slice_finds_the_identities_that_it_holds() -> None:
    apart = [(key, 0, N) for key in range(8)] + [(3, 1, D)]
    found = [faults(apart, at_once=4, part=part) for part in HashSlice.slices(4)]
    assert sorted(found) == [[], [], [], [APART]]
