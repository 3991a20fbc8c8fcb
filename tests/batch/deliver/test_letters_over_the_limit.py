"""More dead letters than the limit in all parts together: the parts that have some are delivered again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icefloe.sinks.dead_letters import DeadLetterFolder
from icefloe.storage.location import open_store
from sinks.opensearch.sinks import sink_at
from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.fake_cluster import FakeCluster
from support.sinks.registered import registered_sinks


class Poisoned(Workspace):
    """A pipeline whose cluster refuses two documents, each of another part."""

    def deliver(self) -> Outcome:
        pipeline = self.pipeline(sink={"type": "search"}, engine="local", shuffle={"map_task_bytes": 1})
        return icefloe("run", pipeline)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def lab(tmp_path: Path, cluster: FakeCluster) -> Iterator[Poisoned]:
    letters = {"path": (tmp_path / "dead").as_uri(), "limit": 1}
    with registered_sinks(search=lambda _: sink_at(cluster, dead_letters=letters)):
        lab = Poisoned.create(tmp_path)
        lab.append(1, 2)
        assert lab.deliver().code == 0
        cluster.item_refusal = refused
        for number in (3, 4, 5):
            lab.append(number)
        first = lab.deliver()
        assert first.code == 65
        assert first.sentence.startswith("2 documents of batch 1 were refused for good")
        yield lab


def refused(_: Any, document: Any) -> tuple[int, str] | None:
    return (400, "mapper_parsing") if document["id"] in {3, 4} else None


def letters(folder: Path) -> int:
    return sum(1 for _ in DeadLetterFolder(open_store((folder / "dead").as_uri()), limit=1).letters(1))


def test_they_are_sent_again_once_the_index_takes_them(lab: Poisoned, cluster: FakeCluster) -> None:
    cluster.item_refusal = lambda *_: None
    done = lab.deliver()
    assert (done.code, done.err) == (0, "")
    assert letters(lab.folder) == 0
    found = icefloe("verify", lab.folder / "events.yaml", "--json").document
    assert (found["is_equal"], found["rows"]) == (True, 5)
    [batch] = icefloe("batches", lab.folder / "events.yaml", "--json").document["batches"][:1]
    delivery = batch["delivery"]
    assert (delivery["parts"], delivery["documents"], delivery["dead_letters"]) == (3, 3, 0)


def test_they_need_not_all_be_taken(lab: Poisoned, cluster: FakeCluster) -> None:
    cluster.item_refusal = lambda _, document: (400, "mapper_parsing") if document["id"] == 3 else None
    assert lab.deliver().code == 0
    assert letters(lab.folder) == 1
    status = icefloe("status", lab.folder / "events.yaml", "--json").document
    assert status["last_delivery"]["dead_letters"] == 1
