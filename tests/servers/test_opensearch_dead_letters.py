"""The way out of a poisoned document, from beginning to end, on the real search cluster."""

from pathlib import Path

import pytest

from demo.servers.opensearch import OpenSearch
from servers.opensearch_place import OpenSearchPlace
from support.pipelines.workspace import Workspace, icefloe

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


def test_a_poisoned_document_is_named_corrected_and_sent_again(opensearch: OpenSearch, tmp_path: Path) -> None:
    lab, place = Workspace.create(tmp_path), OpenSearchPlace(url=opensearch.url)
    place.put_template("-*", mappings={"properties": {"value": {"type": "byte"}}})
    sink = {
        "type": "opensearch", "url": place.url, "index": place.index, "dead_letters": {"path": f"file://{tmp_path}/dead"}
    }  # fmt: skip
    pipeline = lab.pipeline(engine="local", sink=sink, changelog={"path": f"file://{tmp_path}/kept"})
    lab.append(1, 2, 3, 4)
    assert icefloe("run", pipeline).code == 0
    for key in (2, 3, 4):
        lab.update(key, value=7000.0)
    assert icefloe("run", pipeline).code == 0
    lab.update(4, value=5.0)
    assert icefloe("run", pipeline).code == 0

    differing = icefloe("verify", pipeline, "--json")
    assert differing.code == 65
    assert "2 keys of db.events" in differing.err
    assert "refused 3 changes that are in the folder of dead letters" in differing.out + differing.err
    traced = icefloe("trace", pipeline, "id=2")
    assert traced.code == 0

    place.ask("PUT", f"{place.index}/_mapping", {"properties": {"value": {"type": "byte", "ignore_malformed": True}}})
    again = icefloe("deliver", pipeline, "--batches", "1", "--json")
    found = {name: again.document["batches"][0][name] for name in ("documents", "superseded", "dead_letters")}
    assert (again.code, found) == (0, {"documents": 2, "superseded": 1, "dead_letters": 0})
    assert {key: row["value"] for key, row in place.found().items()} == {
        "1:1": 1.0, "1:2": 7000.0, "1:3": 7000.0, "1:4": 5.0
    }  # fmt: skip
    assert icefloe("verify", pipeline).code == 0
    place.remove()
