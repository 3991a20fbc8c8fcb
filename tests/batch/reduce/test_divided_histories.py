"""Random histories of which map tasks divide any partitions, against the same histories undivided."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from icefloe.batch.reduce import coalesce_map_outputs
from icefloe.flow import Phase
from icefloe.shuffle import map_output
from icefloe.shuffle.coalesce import coalesce
from support.pipelines.workshop import Workshop
from support.tables.events import SCHEMA
from support.tiers import soak

FORMS: list[dict[str, Any]] = [
    {"identifier_columns": ["id"], "changes": "net"},
    {"identifier_columns": ["id"], "columns": ["value", "word"], "changes": "each"},
    {"identifier_columns": ["id"], "columns": ["value", "word"], "changes": "net"},
    {"identifier_columns": None, "changes": "each"},
]
Divide = Callable[[object, NDArray[np.int64], int], tuple[int, ...]]


def some_rows(chance: random.Random, count: int) -> pa.Table:
    ids = [chance.choice((1, 1, 2, chance.randrange(200))) for _ in range(count)]
    columns = [ids, [float(chance.randrange(2)) for _ in ids], [f"word {chance.randrange(9)}" for _ in ids]]
    return pa.table(columns, schema=SCHEMA)


def delivered(folder: Path, seed: int, divide: Divide, keys: dict[str, Any]) -> tuple[pa.Table, bool]:
    """The changes of a random history, and whether a partition was cut."""
    chance = random.Random(seed)
    shuffle = {"partitions": 2, "map_task_bytes": 1, "target_size_bytes": 1_500}
    workshop = Workshop.create(folder).set(shuffle=shuffle, **keys)
    workshop.table.append(some_rows(chance, 100))
    workshop.deliver()
    for _ in range(3):
        chance.choice((workshop.replace, workshop.table.append))(some_rows(chance, chance.randrange(40, 150)))
    workshop.replace(some_rows(chance, 100))
    batch = workshop.open()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(map_output, "hot_partitions", divide)
        patches.setattr(
            coalesce_map_outputs, "coalesce", lambda *given, **sizes: coalesce(*given, **sizes, min_range_bytes=1)
        )
        batch.run(Phase.SHUFFLE_WRITE)
        is_cut = batch.coalesce().plan.has_parts
        batch.run(Phase.SHUFFLE_READ)
        batch.commit()
    return workshop.changes(1).drop_columns(["_commit_snapshot_id", "_commit_timestamp"]), is_cut


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(soak(seed) for seed in range(1, 6))])
@pytest.mark.parametrize("form", FORMS, ids=["identity", "identity carried", "carried, net", "no identity"])
def test_changes_are_the_same_whatever_map_tasks_divide(tmp_path: Path, form: dict[str, Any], seed: int) -> None:
    chance = random.Random(seed)

    def divide(_sizes: object, rows: NDArray[np.int64], _bytes: int) -> tuple[int, ...]:
        return tuple(number for number in np.flatnonzero(rows).tolist() if chance.random() < 0.7)

    whole, is_cut = delivered(tmp_path / "whole", seed, lambda *_: (), form)
    assert not is_cut
    divided, is_cut = delivered(tmp_path / "divided", seed, divide, form)
    assert is_cut
    assert divided.equals(whole)
