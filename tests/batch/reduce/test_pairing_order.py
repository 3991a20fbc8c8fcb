"""Which rows of an identity become a pair is the same in every batch, whatever its key."""

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from icefloe.api import read_changes
from support.pipelines.workshop import Workshop
from support.tables.events import SCHEMA


def rows(words: list[str]) -> pa.Table:
    return pa.table([[1] * len(words), [1.0] * len(words), words], schema=SCHEMA)


@pytest.fixture
def crowded(workshop: Workshop) -> Workshop:
    """One identity has many rows; a step removes more of them than it adds."""
    workshop.set(identifier_columns=["id"]).table.append(rows([f"old {number}" for number in range(40)]))
    workshop.deliver()
    workshop.replace(rows([f"new {number}" for number in range(15)]))
    return workshop


def changes_of(found: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(found["_change_type"].to_pylist(), found["word"].to_pylist(), strict=True))


def test_every_reading_of_a_step_makes_the_same_pairs(crowded: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbits", Random(1).getrandbits)
    after = crowded.snapshot_ids()[0]
    crowded.deliver()
    delivered = changes_of(crowded.changes(1))
    assert Counter(kind for kind, _ in delivered) == {"UPDATE_BEFORE": 15, "UPDATE_AFTER": 15, "DELETE": 25}
    for _ in range(3):
        found = read_changes(crowded.table, after_snapshot_id=after, identifier_columns=["id"]).read_all()
        assert changes_of(found) == delivered
