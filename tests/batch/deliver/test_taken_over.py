"""A sink that another pipeline has taken over is taken back only by a load."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from icefloe.batch.open import claim_batch
from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.index_sink import IndexSink
from support.sinks.memory_index import Stored
from support.sinks.registered import INDICES, registered_sinks


class Rival(Workspace):
    """One of two pipelines that deliver to one index."""

    def deliver(self, *arguments: str) -> Outcome:
        return icefloe("run", self.pipeline(sink={"type": "index"}, engine="local"), *arguments)

    def documents(self) -> dict[str, Stored]:
        state = INDICES[""].get("meta", "state").document or {}
        return INDICES[""]._indices[state["live"]]


@pytest.fixture
def rivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Rival, Rival]]:
    monkeypatch.setenv("ICEFLOE_OWNER", "here")
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    with registered_sinks():
        yield Rival.create(tmp_path / "ours"), Rival.create(tmp_path / "theirs")


def test_a_pipeline_that_goes_on_takes_no_sink_back(rivals: tuple[Rival, Rival]) -> None:
    ours, theirs = rivals
    ours.append(1, 2)
    assert ours.deliver().code == 0
    theirs.append(2, 3)
    assert "another pipeline" in theirs.deliver().err
    assert theirs.deliver("--take-over").code == 0
    ours.append(4)
    refused = ours.deliver("--take-over")
    assert refused.code == 65
    assert "memory://index does not belong to pipeline events, whose batch 1 would go on" in refused.err
    assert icefloe("verify", theirs.folder / "events.yaml").code == 0
    # The reset leaves the sink to the other pipeline; only the load after it takes it over.
    assert icefloe("reset", ours.folder / "events.yaml", "--yes").code == 0
    assert icefloe("verify", theirs.folder / "events.yaml").code == 0
    assert ours.deliver("--take-over").code == 0
    assert icefloe("verify", ours.folder / "events.yaml").code == 0


@pytest.mark.parametrize("initial_load", ["from_now", "from_earliest"])
def test_a_pipeline_that_begins_without_a_load_takes_the_sink_over_empty(
    rivals: tuple[Rival, Rival], initial_load: str
) -> None:
    ours, theirs = rivals
    theirs.append(7, 8)
    assert theirs.deliver().code == 0
    ours.append(1, 2)
    pipeline = ours.pipeline(sink={"type": "index"}, engine="local", initial_load=initial_load)
    assert icefloe("run", pipeline, "--take-over").code == 0
    assert not {"[7]", "[8]"} & set(ours.documents())


@pytest.fixture
def half(rivals: tuple[Rival, Rival]) -> tuple[Rival, Rival]:
    """Ours has delivered all parts of its first batch, and died before it said so."""
    ours, theirs = rivals
    ours.append(1, 2)
    theirs.append(2, 3)
    with patch.object(IndexSink, "finish", side_effect=KeyboardInterrupt):
        assert ours.deliver().code not in (0, 65)
    return ours, theirs


def test_a_load_that_was_half_delivered_takes_no_sink_back(half: tuple[Rival, Rival]) -> None:
    ours, theirs = half
    assert theirs.deliver("--take-over").code == 0
    refused = ours.deliver("--take-over")
    assert refused.code == 65
    assert "memory://index does not belong to pipeline events, whose batch 0 would go on" in refused.err
    assert icefloe("verify", theirs.folder / "events.yaml").code == 0
    assert icefloe("reset", ours.folder / "events.yaml", "--yes").code == 0
    assert ours.deliver("--take-over").code == 0
    assert icefloe("verify", ours.folder / "events.yaml").code == 0


def test_a_delivery_that_began_before_its_sink_went_away_and_came_back_is_loaded_again(
    half: tuple[Rival, Rival], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = half
    assert theirs.deliver("--take-over").code == 0
    with monkeypatch.context() as patched:
        # As if this run had looked before the delivery began.
        patched.setattr(claim_batch, "_is_begun", lambda _: False)
        stuck = ours.deliver("--take-over")
    for refused in (stuck, ours.deliver()):
        assert refused.code == 65
        assert refused.sentence.startswith(
            "batch 0 of events began to be delivered to memory://index, which another pipeline has taken over since, "
            "where its first parts may be missing: correct"
        )
    assert icefloe("reset", ours.folder / "events.yaml", "--yes").code == 0
    assert ours.deliver().code == 0
    assert icefloe("verify", ours.folder / "events.yaml").code == 0
