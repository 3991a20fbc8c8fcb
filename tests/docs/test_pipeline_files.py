import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline
from make.pipeline_keys import PAGE, SCHEMA, TABLES, with_tables
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe

TABLE_SINKS = [block for block in claimed(Kind.KEYS) if "type: iceberg" in block.text]
DELIVERED = [
    block
    for block in claimed(Kind.KEYS)
    if block not in TABLE_SINKS
    and not any(word in block.text for word in ("type: opensearch", "kafka", "postgres", "type: spark"))
]


@pytest.mark.parametrize("block", [block for block in claimed(Kind.KEYS) if block not in DELIVERED], ids=str)
def test_keys_of_a_sink_are_accepted_as_they_are(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "flights.yaml"
    path.write_text(f"version: 1\ncatalog: lakehouse\ntable: nyc.flights\nstorage: s3://lake/icefloe\n{block.text}")
    check_pipeline(Pipeline.load(path))


@pytest.mark.parametrize("block", claimed(Kind.PIPELINE), ids=str)
def test_a_pipeline_file_is_accepted_as_it_is(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "flights.yaml"
    path.write_text(block.text)
    check_pipeline(Pipeline.load(path))


@pytest.mark.parametrize("block", claimed(Kind.PIPELINE), ids=str)
def test_a_pipeline_file_delivers_with_places_of_its_own(block: Block, flights: Flights) -> None:
    flights.write_pipeline("flights", yaml.safe_load(block.text))
    flights.lake.append((1, "AA"), (2, "UA"))
    done = icefloe("run", "flights", "--json")
    assert (done.code, done.document["insert"]) == (0, 2), done.err


@pytest.mark.parametrize("block", DELIVERED, ids=str)
def test_keys_of_a_pipeline_file_deliver_in_files(
    block: Block, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in re.findall(r"\$\{(\w+)\}", block.text):
        monkeypatch.setenv(variable, "somewhere")
    check_pipeline(Pipeline.load(flights.write_pipeline("flights", yaml.safe_load(block.text))))
    flights.lake.append((1, "AA"))
    assert icefloe("run", "flights").code == 0
    [part] = flights.folder.rglob("part-*.parquet")
    assert pq.ParquetFile(part).metadata.num_rows == 1


@pytest.mark.parametrize("block", TABLE_SINKS, ids=str)
def test_keys_of_a_pipeline_file_deliver_in_a_table(block: Block, flights: Flights) -> None:
    flights.write_pipeline("flights", yaml.safe_load(block.text))
    flights.lake.table.catalog.create_namespace("changes")
    flights.lake.append((1, "AA"))
    assert icefloe("run", "flights").code == 0
    assert flights.lake.table.catalog.load_table("changes.flights").scan().to_arrow().num_rows == 1


TEXT = PAGE.read_text("utf-8")
KEYS = json.loads(SCHEMA.read_text("utf-8"))


def test_the_tables_are_those_of_the_schema() -> None:
    assert with_tables(TEXT, KEYS) == TEXT, "run: python -m make.pipeline_keys"
    assert TEXT.count("| key | value |") == len(TABLES)


def test_a_key_that_the_schema_gets_is_missing_in_the_page() -> None:
    edited = json.loads(json.dumps(KEYS))
    edited["properties"]["shuffle"]["properties"]["codec"] = {
        "description": "The codec of <blocks>.", "x-expected": "lz4 | zstd", "default": "lz4",
    }  # fmt: skip
    written = with_tables(TEXT, edited)
    assert r"| `codec` | lz4 \| zstd | `lz4` | The codec of \<blocks>. |" in written
    assert with_tables(written, KEYS) == TEXT
