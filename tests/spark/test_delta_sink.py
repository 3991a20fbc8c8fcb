"""The spark sink over tables of Delta, and over files, in an application of their own."""

import json
from pathlib import Path

import pytest

from support.pipelines.workspace import python

SECONDS = 500

EXPECTED = {
    "merged": True,
    "reshaped": True,
    "drifted": True,
    "counted": [{"word": "a", "n": 1}, {"word": "b", "n": 2}],
    "appended": [
        [1, 0, "INSERT", "a"], [1, 1, "UPDATE_AFTER", "b"], [1, 1, "UPDATE_BEFORE", "a"], [2, 0, "INSERT", "a"],
    ],
    "late": [{"word": "a", "n": 0}, {"word": "b", "n": 1}],
    "superseded": True,
    "planned_again": True,
    "in_files": [[0, 1], [1, 4]],
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(SECONDS + 60)
def test_each_batch_is_in_a_table_of_delta_once_and_in_files_at_least_once(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    path = f"{root}:{root}/plugins:{root}/tests"
    done = python(["-m", "spark.delta_scenarios", str(tmp_path)], PYTHONPATH=path, timeout_seconds=SECONDS)
    assert done.code == 0, done.err
    assert dict(json.loads(line) for line in done.out.splitlines()) == EXPECTED
