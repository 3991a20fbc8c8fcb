"""Changes of a part come to one operation for each key."""

from collections import Counter
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.hash_values import KEY
from icefloe.errors import TerminalError
from icefloe.sinks.key_changes import key_operations, one_row_per_key
from sinks.opensearch.batches import changes, part

STEPS = st.tuples(st.sampled_from("+-"), st.integers(0, 3), st.sampled_from("ab"))


def outcome(*batches: pa.RecordBatch, identity: tuple[str, ...] = ("id",), **more: Any) -> dict[Any, Any]:
    """The name of each key after the batch; None for one that is gone."""
    found: dict[Any, Any] = {}
    for operations in key_operations(part(*batches).read, hash_key=KEY, identity=identity, **more):
        for row, is_live in zip(operations.rows.to_pylist(), operations.is_live.tolist(), strict=True):
            assert row["id"] not in found, "a key has one operation"
            found[row["id"]] = row["name"] if is_live else None
    return found


def test_the_state_after_the_batch_decides() -> None:
    rows = changes(("+", 1, "new"), ("<", 2, "old"), (">", 2, "new"), ("-", 3, "gone"), ("-", 4, "a"), ("+", 4, "b"))
    assert outcome(rows) == {1: "new", 2: "new", 3: None, 4: "b"}


def test_several_rows_of_a_key_are_an_error_that_names_it() -> None:
    with pytest.raises(TerminalError, match="several rows have the key id 2 in this batch"):
        outcome(changes(("+", 1, "a"), ("+", 2, "b")), changes(("+", 2, "c")))


def test_the_same_one_of_several_rows_is_kept_in_whatever_order_they_come() -> None:
    one, other = changes(("+", 1, "a")), changes(("+", 1, "b"))
    kept = outcome(one, other, duplicates="keep_one")
    assert kept == outcome(other, one, duplicates="keep_one")
    assert kept[1] in {"a", "b"}


def test_a_null_in_the_key_is_refused_with_its_column() -> None:
    with pytest.raises(TerminalError, match="identifier column id is null in a row") as error:
        outcome(changes(("+", None, "a")))
    assert error.value.column == "id"


def test_a_key_inside_a_struct_is_its_dotted_name() -> None:
    place = pa.struct([("id", pa.int64())])
    schema = pa.schema([("place", place), ("name", pa.large_string())])
    rows = changes(("<", {"id": 1}, "a"), (">", {"id": 1}, "b"), ("-", {"id": 2}, "c"), schema=schema)  # type: ignore[arg-type]
    [found] = key_operations(part(rows).read, hash_key=KEY, identity=("place.id",))
    assert found.rows.to_pylist() == [{"place": {"id": 1}, "name": "b"}, {"place": {"id": 2}, "name": "c"}]
    assert found.is_live.tolist() == [True, False]
    with pytest.raises(TerminalError, match=r"column place\.id"):
        list(key_operations(part(changes(("+", None, "a"), schema=schema)).read, hash_key=KEY, identity=("place.id",)))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 3), st.sampled_from("ab")), max_size=12), st.integers(1, 5)
)
def test_the_operations_are_those_of_added_weights(steps: list[tuple[str, int, str]], rows_at_once: int) -> None:
    weights = Counter[tuple[int, str]]()
    for sign, key, name in steps:
        weights[key, name] += 1 if sign == "+" else -1
    expected = {}
    for key, name in product(range(4), "ab"):
        if weights[key, name]:
            expected.setdefault(key, {})[name] = weights[key, name]
    batches = [changes(*steps[start : start + rows_at_once]) for start in range(0, len(steps), rows_at_once)]
    found = outcome(*batches, duplicates="keep_one")
    assert found.keys() == expected.keys()
    for key, names in expected.items():
        live = {name for name, weight in names.items() if weight > 0}
        assert found[key] in live if live else found[key] is None


def has_one_row_per_key(steps: list[tuple[str, int, str]], identity: tuple[str, ...] = ("id",)) -> bool:
    cut = len(steps) // 2
    read = part(*(changes(*some) for some in (steps[:cut], steps[cut:]) if some)).read
    try:
        one_row_per_key(read, identity=identity, hash_key=KEY)
    except TerminalError:
        return False
    return True


@settings(deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_one_row_per_key_is_what_a_reader_that_goes_by_key_can_follow(steps: list[tuple[str, int, str]]) -> None:
    """The reader knows of a key nothing before its first change, and then its one row, or that it has none."""
    held: dict[int, str | None] = {}
    follows = True
    for sign, key, name in steps:
        before = held.get(key, None if sign == "+" else name)
        follows &= before == (None if sign == "+" else name)
        held[key] = name if sign == "+" else None
    assert has_one_row_per_key(steps) == follows


@pytest.mark.parametrize(
    ("steps", "is_one"),
    [
        ([("<", 1, "a"), (">", 1, "b"), ("<", 1, "b"), (">", 1, "c"), ("-", 1, "c")], True),
        ([("-", 1, "b"), ("<", 1, "a"), (">", 1, "c")], False),
        ([("<", 1, "a"), (">", 1, "c"), ("+", 1, "b")], False),
        ([("+", 1, "b"), ("-", 1, "a")], False),
        ([(">", 1, "b"), ("-", 2, "c"), ("+", 3, "d")], True),
    ],
)
def test_updates_count_as_a_row_that_goes_and_one_that_comes(steps: list[tuple[str, int, str]], is_one: bool) -> None:
    assert has_one_row_per_key(steps) == is_one
