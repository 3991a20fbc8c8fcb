"""Several real runs of one pipeline at once: each ends with 0 or 75, and the sink is exact."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.pipelines.workspace import ROOT, Workspace, icefloe

pytestmark = pytest.mark.slow

RUNS = 3


def start(pipeline: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-m", "icefloe", "run", str(pipeline), "--json"],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.extended
@pytest.mark.parametrize("initial_load", ["full", "from_earliest"])
def test_runs_at_once_deliver_everything_once_and_say_nothing_worse_than_try_again(
    tmp_path: Path, initial_load: str
) -> None:
    workspace = Workspace.create(tmp_path)
    for start_id in range(0, 30, 10):
        workspace.append(*range(start_id, start_id + 10))
    pipeline = workspace.pipeline(initial_load=initial_load)
    for round_number in range(3):
        runs = [start(pipeline) for _ in range(RUNS)]
        ends = [(run, *run.communicate(timeout=120)) for run in runs]
        assert {run.returncode for run, _, _ in ends} <= {0, 75}, [err for _, _, err in ends]
        assert any(run.returncode == 0 for run, _, _ in ends)
        workspace.update(1, value=2.0 + round_number)
    while icefloe("run", pipeline).document["batch"] is not None:
        pass
    assert icefloe("verify", pipeline).code == 0
    batches = sorted(int(path.name.partition("=")[2]) for path in workspace.output().glob("batch=*"))
    assert batches == list(range(len(batches)))
    inserts = Counter(
        row["id"]
        for batch in batches
        for rows in workspace.delivered(batch).values()
        for row in rows
        if row["_change_type"] == "INSERT"
    )
    assert set(inserts.values()) == {1}


def test_a_second_owner_is_refused_by_name_until_it_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace.create(tmp_path)
    workspace.append(1, 2)
    pipeline = workspace.pipeline()
    monkeypatch.setenv("ICEFLOE_OWNER", "production")
    assert icefloe("run", pipeline).code == 0
    workspace.append(3)
    monkeypatch.setenv("ICEFLOE_OWNER", "staging")
    refused = icefloe("run", pipeline)
    assert refused.code == 65
    assert "belongs to owner production" in refused.sentence
    assert "this run belongs to owner staging" in refused.sentence
    status = icefloe("status", pipeline, "--json")
    assert (status.code, status.document["owner"]) == (0, "production")
    assert icefloe("verify", pipeline).code == 0
    assert icefloe("run", pipeline, "--take-over").code == 0
    monkeypatch.setenv("ICEFLOE_OWNER", "production")
    assert icefloe("run", pipeline, "--take-over").document["batch"] is None, "also with nothing to deliver"
    assert icefloe("status", pipeline, "--json").document["owner"] == "production"
    monkeypatch.setenv("ICEFLOE_OWNER", "staging")
    assert icefloe("run", pipeline, "--take-over").code == 0
    assert icefloe("status", pipeline, "--json").document["owner"] == "staging"
    monkeypatch.delenv("ICEFLOE_OWNER")
    without = icefloe("run", pipeline, "--take-over")
    assert (without.code, "--take-over needs an owner: set ICEFLOE_OWNER" in without.sentence) == (2, True)
    workspace.append(4)
    assert "nobody in particular (ICEFLOE_OWNER is not set)" in icefloe("run", pipeline).sentence
