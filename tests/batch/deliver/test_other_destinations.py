"""A batch that is half delivered goes on only where its first parts are."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from sinks.opensearch.sinks import sink_at
from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.fake_cluster import FakeCluster
from support.sinks.registered import registered_sinks

CLUSTERS: defaultdict[str, FakeCluster] = defaultdict(FakeCluster)
OLD, NEW = "http://old.example:9200", "http://new.example:9200"


class Moving(Workspace):
    """A pipeline whose search cluster has an address that may be edited."""

    def command(self, name: str, *arguments: str, url: str = OLD) -> Outcome:
        return icefloe(name, self.pipeline(sink={"type": "search", "url": url}, engine="local"), *arguments)

    def ids(self, url: str = OLD) -> list[int]:
        return sorted(each["id"] for each in CLUSTERS[url].documents("people").values())


@pytest.fixture
def half(tmp_path: Path) -> Iterator[Moving]:
    """A pipeline that has delivered all parts of its first batch, and died before it said so."""
    with registered_sinks(search=lambda keys: sink_at(CLUSTERS[keys["url"]], url=keys["url"])):
        made = Moving.create(tmp_path)
        made.append(1, 2)
        with patch.object(OpenSearchSink, "finish", side_effect=KeyboardInterrupt):
            assert made.command("run").code not in (0, 65)
        yield made
    CLUSTERS.clear()


def require_refused(found: Outcome, *words: str) -> None:
    assert found.code == 65
    for each in ("batch 0 of events began to be delivered to index people-0 (", *words):
        assert each in found.sentence


def test_a_load_that_is_half_delivered_does_not_go_on_at_another_cluster(half: Moving) -> None:
    require_refused(half.command("run", url=NEW), f"{NEW}/people now has index people-0 (", "icefloe reset events")
    assert half.ids(NEW) == []
    assert half.command("run").code == 0
    assert half.ids() == [1, 2]


def test_it_is_loaded_into_the_other_cluster_after_a_reset(half: Moving) -> None:
    require_refused(half.command("run", url=NEW))
    assert half.command("reset", "--yes", url=NEW).code == 0
    assert half.command("run", url=NEW).code == 0
    assert half.ids(NEW) == [1, 2]


def test_a_load_does_not_go_on_if_its_index_was_deleted_with_the_record_of_it(half: Moving) -> None:
    CLUSTERS[OLD].indexes.clear()
    require_refused(half.command("run"), f"{OLD}/people now has index people-0 (")
