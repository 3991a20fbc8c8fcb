"""Whole pipelines to a real search cluster, by the command line: validate, run, deliver once more."""

import json
from pathlib import Path

import pytest

from demo.servers.opensearch import OpenSearch
from servers.opensearch_place import OpenSearchPlace
from support.pipelines.workspace import Outcome, Workspace, icefloe

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


def sink_of(place: OpenSearchPlace) -> dict[str, object]:
    return {"type": "opensearch", "url": place.url, "index": place.index, "shards": 1, "replicas": 0}


def values(place: OpenSearchPlace) -> dict[int, float]:
    return {row["id"]: row["value"] for row in place.found().values()}


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome.err
    return outcome


def test_an_index_follows_a_table(opensearch: OpenSearch, tmp_path: Path) -> None:
    lab, index = Workspace.create(tmp_path), OpenSearchPlace(url=opensearch.url)
    pipeline = lab.pipeline(engine="local", sink=sink_of(index), changelog={"path": f"file://{tmp_path}/log"})
    lab.append(1, 2, 3)
    validated = done(icefloe("validate", pipeline))
    assert "opensearch" in validated.out
    done(icefloe("run", pipeline))
    assert sorted(values(index)) == [1, 2, 3]
    lab.update(2, value=7.0)
    lab.delete(3)
    lab.append(4)
    done(icefloe("run", pipeline))
    assert values(index) == {1: 1.0, 2: 7.0, 4: 1.0}
    young = done(icefloe("purge", pipeline, "--older-than", "1h", "--yes", "--json")).document
    assert young == {"pipeline": "events", "found": 0, "purged": 0}
    # A second index gets all batches once more, and a reset loads the first one anew.
    second = OpenSearchPlace(url=opensearch.url)
    file = tmp_path / "second.yaml"
    file.write_text(json.dumps({"sink": sink_of(second)}))
    done(icefloe("deliver", pipeline, "--batches", "0-1", "--sink", file))
    assert second.found() == index.found()
    done(icefloe("reset", pipeline, "--yes"))
    lab.delete(1)
    done(icefloe("run", pipeline))
    assert sorted(values(index)) == [2, 4]


def test_an_empty_cluster_in_the_middle_of_a_pipeline_is_refused(opensearch: OpenSearch, tmp_path: Path) -> None:
    lab, index = Workspace.create(tmp_path), OpenSearchPlace(url=opensearch.url)
    pipeline = lab.pipeline(engine="local", sink=sink_of(index))
    lab.append(1)
    done(icefloe("run", pipeline))
    index.remove()
    lab.append(2)
    refused = icefloe("run", pipeline)
    assert refused.code == 65
    assert "knows nothing of pipeline events, and batch 1 goes on where others ended" in refused.err
    done(icefloe("reset", pipeline, "--yes"))
    done(icefloe("run", pipeline))
    assert sorted(values(index)) == [1, 2]
