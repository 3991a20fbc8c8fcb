"""An open batch is given up only where its changes are: elsewhere nothing shows whether they were delivered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from support.pipelines.interrupted import Killed, killed_at
from support.pipelines.operated import Operated
from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.index_sink import IndexSink
from support.sinks.registered import INDICES, registered_sinks

EDITED = pytest.mark.parametrize("edited", ["changelog.path", "storage"])


class Stuck(Workspace):
    """A pipeline whose second batch was killed right before the end of its delivery."""

    def command(self, name: str, *arguments: object, **keys: Any) -> Outcome:
        return icefloe(name, self.pipeline(sink={"type": "index"}, engine="local", **keys), *arguments)

    @property
    def elsewhere(self) -> dict[str, dict[str, Any]]:
        """Keys that lead to another folder of staged batches, by the one that was edited."""
        checkpoint = f"file://{self.storage()}/checkpoints/events"
        return {
            "changelog.path": {"changelog": {"path": f"file://{self.folder}/other"}},
            "storage": {"storage": f"file://{self.folder}/other", "checkpoint": checkpoint},
        }

    def ids(self) -> set[int]:
        live = (INDICES[""].get("meta", "state").document or {})["live"]
        return {row["id"] for row in INDICES[""].scan(live)}


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Stuck]:
    with registered_sinks():
        made = Stuck.create(tmp_path)
        made.append(1, 2)
        assert made.command("run").code == 0
        made.append(3)
        with patch.object(IndexSink, "finish", side_effect=KeyboardInterrupt):
            assert made.command("run").code not in (0, 65)
        made.delete(3)
        yield made


@EDITED
def test_a_batch_that_is_staged_elsewhere_is_not_abandoned(stuck: Stuck, edited: str) -> None:
    refused = stuck.command("abandon", "--yes", **stuck.elsewhere[edited])
    assert refused.code == 65
    assert refused.sentence.startswith(
        f"the changes of batch 1 of events are in file://{stuck.storage()}/staged/events, but changelog.path or "
        f"storage leads to file://{stuck.folder}/other"
    )
    for way_out in ("restore changelog.path or storage, then run icefloe abandon", "or run icefloe reset events"):
        assert way_out in refused.sentence
    assert not (stuck.folder / "other").exists()


@EDITED
def test_a_reset_gives_up_a_batch_that_is_staged_elsewhere_and_loads_again(stuck: Stuck, edited: str) -> None:
    keys = stuck.elsewhere[edited]
    assert stuck.command("reset", "--yes", **keys).code == 0
    assert stuck.command("run", **keys).code == 0
    assert stuck.ids() == {1, 2}


@pytest.fixture
def visible(operated: Operated, monkeypatch: pytest.MonkeyPatch) -> Operated:
    """Batch 3 has its manifest at ``sink.path``, and no record."""
    monkeypatch.setenv("ROOM", str(operated.folder))
    operated.set(sink={"type": "files", "path": "file://${ROOM}/changes"})
    assert operated.command("reset", "--yes").code == 0
    operated.run()
    operated.update([1], value=2.0)
    batch = operated.open().run_route()
    with killed_at(2), pytest.raises(Killed):
        batch.commit()
    return operated


@pytest.mark.parametrize("edited", ["path", "environment"])
def test_a_batch_that_readers_see_is_not_abandoned_from_another_path(
    visible: Operated, edited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = visible.folder / "other"
    with monkeypatch.context() as patched:
        if edited == "path":
            visible.set(sink={"type": "files", "path": f"file://{other}/changes"})
            words = f"leads to file://{other}/changes now"
        else:
            patched.setenv("ROOM", str(other))
            words = "but sink.path has another value of its variables here"
        refused = visible.abandon()
        assert (refused.code, words in refused.sentence) == (65, True), refused.err
        assert "icefloe reset" not in refused.sentence
        assert visible.command("reset", "--yes").code == 65
    assert not other.exists()
    visible.set(sink={"type": "files", "path": "file://${ROOM}/changes"})
    assert "recorded as done" in visible.abandon().out
    visible.require_consistent()
