"""One question about a table: the changes of a range, held to the states at its ends and between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema

from histories.bench import Bench
from histories.selection import EVERYTHING, Selection
from histories.states import IdentifiedState, State, StateCache
from histories.trace import ExpectedStep
from icefloe.api import read_changes
from support.spark.row_counts import Row, difference, freeze

__all__ = ["Question", "WrongChangesError", "check_changes", "check_question", "check_steps"]

_SIGNS: Final = {"INSERT": 1, "UPDATE_AFTER": 1, "DELETE": -1, "UPDATE_BEFORE": -1}
_META: Final = 4
_IMAGES: Final = ("UPDATE_BEFORE", "UPDATE_AFTER")


class WrongChangesError(AssertionError):
    """icefloe said something else than Iceberg's states do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to `read_changes`.

    Attributes:
        row_ids: whether the table has any, so that they may pair updates.
        only_sum: where the steps cannot be known any more: only what they add up to is checked.
    """

    after: int | None
    up_to: int
    identifier_columns: tuple[str, ...] = ()
    net: bool = False
    split: bool = False
    row_ids: bool = False
    only_sum: bool = False
    selection: Selection = EVERYTHING

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments."""
        return {
            "after_snapshot_id": self.after,
            "up_to_snapshot_id": self.up_to,
            "identifier_columns": list(self.identifier_columns) or None,
            "changes": "net" if self.net else "each",
            "commit_groups": "split" if self.split else "fuse",
            **self.selection.arguments(),
        }


@dataclass(frozen=True, slots=True)
class _Change:
    type: str
    ordinal: int
    snapshot_id: int
    timestamp_ms: int
    row: Row


def check_question(bench: Bench, question: Question) -> int:
    """Ask, and compare; how many changes there were.

    Raises:
        WrongChangesError: what differs.
    """
    table = bench.table()
    steps = bench.trace.steps(question.after, question.up_to, split=question.split)
    assert steps is not None, f"no way leads from {question.after} to {question.up_to}"
    found = read_changes(table, **question.arguments()).read_all()
    schema = bench.trace.schemas[question.up_to]
    try:
        check_changes(found, steps, bench.states, schema, question)
    except WrongChangesError as wrong:
        raise WrongChangesError(f"{wrong}, asked {question}") from None
    return found.num_rows


def check_steps(found: pa.Table, steps: Sequence[ExpectedStep], state: State, identity: Sequence[str]) -> None:
    """Hold the changes of a range to its steps, each by itself.

    Raises:
        WrongChangesError: what differs.
    """
    names = found.column_names[_META:]
    keys = [names.index(name) for name in identity] or None
    changes = _changes(found)
    _check_steps(changes, step_weights(steps, state), keys, steps)
    _check_order(changes, keys)


def check_changes(
    found: pa.Table, steps: Sequence[ExpectedStep], states: StateCache, schema: Schema, question: Question
) -> None:
    """Hold the changes of a range to its steps.

    Raises:
        WrongChangesError: what differs.
    """
    names = [each.name for each in question.selection.schema(schema).fields]
    _require(found.column_names[_META:] == names, f"columns are {found.column_names[_META:]}, not {names}")
    identity = question.identifier_columns or tuple(schema.identifier_field_names())
    with_row_ids = question.row_ids and not identity and not question.net
    # Without the identity in the rows nobody can say which of them make a pair.
    keys = [names.index(name) for name in identity if name in names] if set(identity) <= {*names} else None
    keys = keys or None
    changes = _changes(found)
    images = [change for change in changes if change.type in _IMAGES]
    _require(bool(identity) or with_row_ids or not images, f"without identity there are no updates: {images}")
    expected = step_weights(steps, states.selected(schema, question.selection))
    if question.only_sum:
        _check_sum(changes, expected)
    elif question.net:
        _check_net(changes, expected, keys, steps)
    else:
        _check_steps(changes, expected, keys, steps)
    _check_order(changes, keys)
    if with_row_ids:
        _check_row_id_pairs(changes, steps, states.by_row_id(schema, question.selection))


def _check_steps(
    changes: Sequence[_Change],
    expected: Sequence[Counter[Row]],
    keys: Sequence[int] | None,
    steps: Sequence[ExpectedStep],
) -> None:
    ordinals = {change.ordinal for change in changes}
    _require(ordinals <= set(range(len(steps))), f"ordinals {sorted(ordinals)} of {len(steps)} steps")
    for ordinal, (step, weights) in enumerate(zip(steps, expected, strict=True)):
        here = [change for change in changes if change.ordinal == ordinal]
        where = f"step {ordinal} from {step.start} to {step.end}"
        _check_rows(here, weights, keys, where)
        for change in here:
            _check_commit(change, step, where)


def _check_net(
    changes: Sequence[_Change],
    expected: Sequence[Counter[Row]],
    keys: Sequence[int] | None,
    steps: Sequence[ExpectedStep],
) -> None:
    weights, last_ordinals = net_changes(expected, keys)
    _check_rows(changes, weights, keys, "net")
    for change in changes:
        ordinal = last_ordinals[_key(change.row, keys)]
        _require(change.ordinal == ordinal, f"net: {change} should have ordinal {ordinal}")
        _check_commit(change, steps[ordinal], "net")


def _check_sum(changes: Sequence[_Change], expected: Sequence[Counter[Row]]) -> None:
    weights, _ = net_changes(expected, None)
    wrong = difference(weights, _signed(changes))
    _require(not wrong, f"in sum these rows are counted wrong, by so much: {dict(wrong)}")


def _signed(changes: Sequence[_Change]) -> Counter[Row]:
    signed: Counter[Row] = Counter()
    for change in changes:
        signed[change.row] += _SIGNS[change.type]
    return signed


def _check_rows(changes: Sequence[_Change], weights: Counter[Row], keys: Sequence[int] | None, where: str) -> None:
    wrong = difference(weights, _signed(changes))
    _require(not wrong, f"{where}: these rows are counted wrong, by so much: {dict(wrong)}")
    surplus = len(changes) - sum(map(abs, weights.values()))
    _require(surplus == 0, f"{where}: {surplus} changes take each other back: {changes}")
    if keys is not None or not any(change.type in _IMAGES for change in changes):
        types: Counter[Row] = Counter((change.type, *_key(change.row, keys)) for change in changes)
        paired = typed_by_key(weights, keys)
        _require(types == paired, f"{where}: change types are {dict(types)}, not {dict(paired)}")


def _check_row_id_pairs(changes: Sequence[_Change], steps: Sequence[ExpectedStep], state: IdentifiedState) -> None:
    for ordinal, step in enumerate(steps):
        start, end = state(step.start), state(step.end)
        expected = row_id_pairs(start, end) if start is not None and end is not None else None
        images = [change.row for change in changes if change.ordinal == ordinal and change.type in _IMAGES]
        found = Counter(zip(images[::2], images[1::2], strict=True))
        right = expected is None or found == expected
        _require(right, f"step {ordinal}: updates by row id are {dict(found)}, not {dict(expected or {})}")


def _check_commit(change: _Change, step: ExpectedStep, where: str) -> None:
    _require(change.snapshot_id in step.commit_snapshot_ids, f"{where}: {change} has not {step.commit_snapshot_ids}")
    right = step.timestamp_ms in (None, change.timestamp_ms)
    _require(right, f"{where}: {change} is not of {step.timestamp_ms}")


def _check_order(changes: Sequence[_Change], keys: Sequence[int] | None) -> None:
    """Images stand side by side, before first; the changes of one identity come in the order of their steps."""
    last: dict[Row, int] = {}
    for index, change in enumerate(changes):
        key = _key(change.row, keys)
        in_order = keys is None or last.get(key, 0) <= change.ordinal
        _require(in_order, f"{change} comes after a later change of its identity")
        last[key] = change.ordinal
        if change.type == "UPDATE_BEFORE":
            after = changes[index + 1] if index + 1 < len(changes) else None
            paired = after is not None and after.type == "UPDATE_AFTER" and after.ordinal == change.ordinal
            same = paired and after is not None and (keys is None or _key(after.row, keys) == key)
            _require(same, f"{change} is followed by {after}")


def _changes(found: pa.Table) -> list[_Change]:
    columns = [column.to_pylist() for column in found.columns]
    rows = zip(*([freeze(value) for value in column] for column in columns[_META:]), strict=True)
    return [
        _Change(change_type, ordinal, snapshot_id, round(timestamp.timestamp() * 1000), row)
        for change_type, ordinal, snapshot_id, timestamp, row in zip(*columns[:_META], rows, strict=True)
    ]


def _key(row: Row, keys: Sequence[int] | None) -> Row:
    return row if keys is None else tuple(row[index] for index in keys)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise WrongChangesError(sentence)


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
