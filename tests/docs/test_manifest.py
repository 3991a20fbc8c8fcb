import json
from typing import Any

import pytest

from icefloe.documents import load_document
from icefloe.sinks.manifest import Manifest
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights


def shape(document: Any) -> Any:
    """A document with the names of its types in place of its values."""
    if isinstance(document, dict):
        return {key: shape(value) for key, value in document.items()}
    if isinstance(document, list):
        return [shape(value) for value in document]
    return type(document).__name__


@pytest.mark.parametrize("block", claimed(Kind.MANIFEST), ids=str)
def test_a_manifest_is_like_one_that_a_run_wrote(block: Block, followed: Flights) -> None:
    load_document(Manifest, block.text.encode(), what=str(block))
    written = followed.folder / "flights" / "changes" / "batch=1" / "_manifest.json"
    assert shape(json.loads(block.text)) == shape(json.loads(written.read_text()))
    sums = json.loads(block.text)
    assert sums["batch"]["rows"] == sum(sums["batch"]["counts"].values()) == sum(p["rows"] for p in sums["parts"])
