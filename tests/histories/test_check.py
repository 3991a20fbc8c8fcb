"""The checks themselves: what is not so is told."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from histories.check import Question, WrongChangesError, check_changes
from histories.states import StateCache
from histories.trace import ExpectedStep, Trace

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "word", StringType()), schema_id=0)
STATES = {
    1: [{"id": 1, "word": "a"}, {"id": 2, "word": "b"}, {"id": 2, "word": "b"}],
    2: [{"id": 1, "word": "A"}, {"id": 2, "word": "b"}, {"id": None, "word": "c"}],
    3: [{"id": 1, "word": "a"}, {"id": 2, "word": "b"}, {"id": None, "word": "c"}],
}
STEPS = [ExpectedStep(start=n, end=n + 1, commit_snapshot_ids=frozenset([n + 1]), timestamp_ms=1000) for n in (1, 2)]
EACH = [
    ("UPDATE_BEFORE", 0, 1, "a"),
    ("UPDATE_AFTER", 0, 1, "A"),
    ("DELETE", 0, 2, "b"),
    ("INSERT", 0, None, "c"),
    ("UPDATE_BEFORE", 1, 1, "A"),
    ("UPDATE_AFTER", 1, 1, "a"),
]
NET = [("DELETE", 0, 2, "b"), ("INSERT", 0, None, "c")]
AT = datetime.fromtimestamp(1, UTC)


def check(changes: Sequence[tuple[object, ...]], *, snapshot: int = 2, at: datetime = AT, net: bool = False) -> None:
    columns = list(zip(*changes, strict=True))
    types, ordinals, ids, words = columns or ([], [], [], [])
    found = pa.table(
        {
            "_change_type": pa.array(types, pa.string()),
            "_change_ordinal": pa.array(ordinals, pa.int32()),
            "_commit_snapshot_id": pa.array([snapshot + ordinal for ordinal in ordinals], pa.int64()),
            "_commit_timestamp": pa.array([at] * len(types), pa.timestamp("us", "UTC")),
            "id": pa.array(ids, pa.int64()),
            "word": pa.array(words, pa.string()),
        }
    )
    schemas = dict.fromkeys(STATES, SCHEMA)
    trace = Trace(schemas=schemas, full_schemas=schemas)
    states = StateCache(trace, lambda snapshot_id: pa.Table.from_pylist(STATES[snapshot_id]))
    question = Question(after=1, up_to=3, identifier_columns=("id",), net=net)
    check_changes(found, STEPS, states, SCHEMA, question)


def test_the_right_changes_pass() -> None:
    check(EACH)
    check(NET, net=True)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        *((EACH[:missing] + EACH[missing + 1 :], "counted wrong") for missing in range(len(EACH))),
        ([*EACH, ("INSERT", 1, 7, "made up")], "counted wrong"),
        ([*EACH, ("DELETE", 1, 2, "b"), ("INSERT", 1, 2, "b")], "take each other back"),
        ([("DELETE", 0, 1, "a"), ("INSERT", 0, 1, "A"), *EACH[2:]], "change types are"),
        ([EACH[1], EACH[0], *EACH[2:]], "is followed by"),
        ([EACH[0], EACH[2], EACH[1], *EACH[3:]], "is followed by"),
        ([*EACH[4:], *EACH[:4]], "after a later change"),
        ([*EACH[:4], ("UPDATE_BEFORE", 2, 1, "A"), ("UPDATE_AFTER", 2, 1, "a")], "of 2 steps"),
        ([*EACH[4:], ("DELETE", 1, 2, "b")], "step 0"),
        ([], "step 0"),
    ],
)
def test_every_fault_is_reported(wrong: list[tuple[object, ...]], sentence: str) -> None:
    with pytest.raises(WrongChangesError, match=sentence):
        check(wrong)


def test_a_wrong_snapshot_or_time_is_reported() -> None:
    with pytest.raises(WrongChangesError, match="has not frozenset"):
        check(EACH, snapshot=1)
    with pytest.raises(WrongChangesError, match="is not of 1000"):
        check(EACH, at=datetime.fromtimestamp(2, UTC))


def test_a_wrong_ordinal_of_net_changes_is_reported() -> None:
    with pytest.raises(WrongChangesError, match="should have ordinal 0"):
        check([("DELETE", 1, 2, "b"), ("INSERT", 0, None, "c")], net=True)
