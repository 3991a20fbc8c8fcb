"""Several real runs of one pipeline at once: each ends with 0 or 75, and the sink is exact."""

from pathlib import Path

import pytest

from support.pipelines.workspace import Workspace, icefloe

pytestmark = pytest.mark.slow


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
