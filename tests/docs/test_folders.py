import json
import logging
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan_document import begun_key, delivery_key, error_key
from icefloe.documents import load_document
from icefloe.sinks.manifest import Manifest
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights
from support.pipelines.transfers import blocks_in_a_file_of_their_own

EXTENSIONS = r"(json|parquet|data|index|moves|void)"


def patterns(block: Block) -> set[str]:
    """Each file of a block as a regular expression for the end of its path."""
    text = re.sub(r"(\S+)(\.\w+)\|(\.\S+)", r"\1\2 \1\3", block.text)
    words = re.findall(r"[^\s,]+", re.sub(r"<(sink )?path>/", "", text))
    files = [word for word in words if re.search(rf"\.{EXTENSIONS}$|\.\.\.$|<generation>$", word)]
    return {pattern(word) for word in files}


def pattern(word: str) -> str:
    """Digits stand for as many others, a name in brackets for any."""
    parts = re.split(r"(<[^>]+>|\.\.\.|\d+)", word)
    return r"(.*/)?" + "".join(expression(part) for part in parts)


def expression(part: str) -> str:
    if part.isdigit():
        return rf"\d{{{len(part)}}}"
    return ".*" if part == "..." else r"[\w-]+" if part.startswith("<") else re.escape(part)


def test_files_and_folders_are_those_that_runs_leave(flights: Flights) -> None:
    # Rows are delivered without their key, so that equal ones are looked for; little files, so that there are many.
    sink = {"target_file_bytes": 2000}
    keys: dict[str, Any] = {"columns": ["carrier"], "shuffle": {"map_task_bytes": "1KiB"}, "sink": sink}
    flights.write_pipeline("flights", **keys)
    flights.lake.append(*[(number, f"carrier {number}") for number in range(400)])
    flights.lake.append(*[(number, f"carrier {number}") for number in range(400, 800)])
    found = flights.files_before_cleanup("flights", is_damaged=False)
    flights.lake.replace_carrier(7, "DL")
    with blocks_in_a_file_of_their_own():
        found += flights.files_before_cleanup("flights", is_damaged=True)
    up_to = RequestedRange(up_to_snapshot_id=flights.lake.current_snapshot_id())
    found += flights.files_before_cleanup("flights", up_to, is_damaged=False)
    found += [error_key("shuffle_write", "0a1b"), begun_key(), delivery_key(0), delivery_key(None)]
    found += ["deliveries/bounds.json", "0a1b/00000.json", "0a1b/00000.0a1b.data"]

    for block in claimed(Kind.FOLDERS):
        documented = patterns(block)
        places = {path for path in found if belongs(path, block)}
        unknown = {path for path in places if not any(re.fullmatch(each, path) for each in documented)}
        assert not unknown, f"{block} lacks {sorted(unknown)}"
        never = {each for each in documented if not any(re.fullmatch(each, path) for path in found)}
        assert not never, f"{block} has files that nobody wrote: {sorted(never)}"


def belongs(path: str, block: Block) -> bool:
    """True if a block about the sink alone must name it."""
    return "<storage>" in block.text or path.startswith("changes/")


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


PLANTED = "planted-6c1f"


def test_row_values_are_in_parts_data_files_and_extents_alone(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    flights.write_pipeline("flights")
    flights.lake.append((1, PLANTED), (2, "UA"))
    found = flights.files_before_cleanup("flights", is_damaged=False)
    flights.lake.replace_carrier(1, "DL")
    files = kept_before_cleanup(flights)
    assert {Path(name).suffix for name in {*found, *files}} >= {".json", ".data", ".extents", ".parquet"}
    for name, content in files.items():
        if Path(name).suffix not in (".data", ".extents", ".parquet"):
            assert PLANTED.encode() not in content, name
    assert PLANTED not in caplog.text
    assert "flights" in caplog.text

    parts = sorted((flights.folder / "flights" / "changes").rglob("*.parquet"))
    carriers = [value for part in parts for value in pq.ParquetFile(part).read()["carrier"].to_pylist()]
    assert carriers.count(PLANTED) == 2, "the insert, and the image before the update"


def kept_before_cleanup(flights: Flights) -> dict[str, bytes]:
    """The files of a batch, read before any of them is removed."""
    kept: dict[str, bytes] = {}
    top = flights.folder / "flights"
    flights.files_before_cleanup(
        "flights", is_damaged=False, look=lambda names: kept.update({name: (top / name).read_bytes() for name in names})
    )
    return kept
