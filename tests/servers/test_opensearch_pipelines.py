"""Whole pipelines to a real search cluster, by the command line: validate, run, deliver once more."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.servers.opensearch import OpenSearch

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


class Index:
    def __init__(self, server: OpenSearch, name: str) -> None:
        self.url, self.name = server.url, name

    def sink(self, **keys: Any) -> dict[str, Any]:
        return {"type": "opensearch", "url": self.url, "index": self.name, "shards": 1, "replicas": 0, **keys}

    def documents(self) -> dict[int, dict[str, Any]]:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{self.name}/_refresh", method="POST")).close()
        with urllib.request.urlopen(f"{self.url}/{self.name}/_search?size=1000") as answer:
            hits = json.load(answer)["hits"]["hits"]
        return {hit["_source"]["id"]: hit["_source"] for hit in hits if not hit["_source"].get("_deleted")}

    def forget(self) -> None:
        """Removes everything of the name, as another cluster has it."""
        with urllib.request.urlopen(f"{self.url}/{self.name}*?expand_wildcards=all") as answer:
            names = list(json.load(answer))
        for name in names:
            urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="DELETE")).close()


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome.err
    return outcome


def test_an_index_follows_a_table(opensearch: OpenSearch, tmp_path: Path) -> None:
    lab, index = Workspace.create(tmp_path), Index(opensearch, "followed")
    pipeline = lab.pipeline(engine="local", sink=index.sink(), changelog={"path": f"file://{tmp_path}/log"})
    lab.append(1, 2, 3)
    validated = done(icefloe("validate", pipeline))
    assert "opensearch" in validated.out
    done(icefloe("run", pipeline))
    assert sorted(index.documents()) == [1, 2, 3]
    lab.update(2, value=7.0)
    lab.delete(3)
    lab.append(4)
    done(icefloe("run", pipeline))
    assert {key: row["value"] for key, row in index.documents().items()} == {1: 1.0, 2: 7.0, 4: 1.0}
    young = done(icefloe("purge", pipeline, "--older-than", "1h", "--yes", "--json")).document
    assert young == {"pipeline": "events", "found": 0, "purged": 0}
    # A second index gets all batches once more, and a reset loads the first one anew.
    second = Index(opensearch, "second")
    file = tmp_path / "second.yaml"
    file.write_text(json.dumps({"sink": second.sink()}))
    done(icefloe("deliver", pipeline, "--batches", "0-1", "--sink", file))
    assert second.documents() == index.documents()
    done(icefloe("reset", pipeline, "--yes"))
    lab.delete(1)
    done(icefloe("run", pipeline))
    assert sorted(index.documents()) == [2, 4]


def test_an_empty_cluster_in_the_middle_of_a_pipeline_is_refused(opensearch: OpenSearch, tmp_path: Path) -> None:
    lab, index = Workspace.create(tmp_path), Index(opensearch, "moved")
    pipeline = lab.pipeline(engine="local", sink=index.sink())
    lab.append(1)
    done(icefloe("run", pipeline))
    index.forget()
    lab.append(2)
    refused = icefloe("run", pipeline)
    assert refused.code == 65
    assert "knows nothing of pipeline events, and batch 1 goes on where others ended" in refused.err
    done(icefloe("reset", pipeline, "--yes"))
    done(icefloe("run", pipeline))
    assert sorted(index.documents()) == [1, 2]
