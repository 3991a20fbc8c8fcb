import json
from typing import Any

import pytest

from icefloe.documents import dump_document, load_document
from icefloe.iceberg.step import Step, StepKind, refuse_gaps_in_ordinals


def step(**changes: Any) -> Step:
    facts = {
        "change_ordinal": 0,
        "kind": StepKind.COMMIT,
        "start_snapshot_id": None,
        "end_snapshot_id": 2**62,
        "snapshot_ids": (5, 2**62),
        "commit_snapshot_id": 2**62,
        "commit_timestamp_us": 1,
    }
    return Step(**{**facts, **changes})


def test_a_step_survives_its_document_and_its_snapshot_ids_are_strings_there() -> None:
    data = dump_document(step())
    assert load_document(Step, data, what="an offset") == step()
    assert json.loads(data)["snapshot_ids"] == ["5", str(2**62)]


def test_a_step_without_snapshots_or_with_a_negative_ordinal_is_refused() -> None:
    with pytest.raises(ValueError, match="names no snapshot"):
        step(snapshot_ids=())
    with pytest.raises(ValueError, match="counts from 0, found -1"):
        step(change_ordinal=-1)


def test_ordinals_have_no_gaps() -> None:
    refuse_gaps_in_ordinals([step(), step(change_ordinal=1)])
    with pytest.raises(ValueError, match=r"found \[0, 2\]"):
        refuse_gaps_in_ordinals([step(), step(change_ordinal=2)])
