"""This release goes on with batches that commit c4798f0 has staged and began to deliver."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.catalogs import open_sql_catalog
from support.pipelines.workspace import icefloe
from support.sinks.registered import registered_sinks
from support.tables.events import rows

CHANGED = 18


def run(pipeline: Path) -> dict[str, Any]:
    done = icefloe("run", pipeline, "--json")
    assert done.code == 0, done.err
    return done.document


def parts(release: Path, name: str, number: int) -> list[Path]:
    return sorted(release.glob(f"{name}/changes/batch={number}/*.parquet"))


@pytest.mark.parametrize(("name", "number"), [("delivered", 2), ("staged", 1), ("delivering", 1)])
def test_a_pipeline_that_delivers_goes_on_where_it_was(delivering_release: Path, name: str, number: int) -> None:
    pipeline = delivering_release / f"{name}.yaml"
    table = open_sql_catalog("lab", delivering_release).load_table("db.events")
    table.append(rows([40], 1.0).select(["id", "value"]))
    there = {path: path.stat().st_mtime_ns for path in parts(delivering_release, name, number)}
    assert len(there) == (name == "delivering")
    batches = [run(pipeline) for _ in range(4 - number)]
    assert [each["batch"] for each in batches] == [*range(number, 3), None]
    assert [each["update_after"] for each in batches if each["batch"] == 1] == [CHANGED] * (2 - number)
    assert all(path.stat().st_mtime_ns == time for path, time in there.items()), "it was delivered already"
    verified = icefloe("verify", pipeline)
    assert verified.code == 0, verified.err
    left = delivering_release.glob(f"{name}/shuffle/*/*/[0-9]*/**/*")
    assert not [path for path in left if path.is_file()]


@pytest.mark.parametrize(("name", "code", "inserts"), [("staged", 0, 0), ("delivering", 65, 20)])
def test_a_batch_that_is_not_proven_is_abandoned_and_the_other_is_reset(
    delivering_release: Path, name: str, code: int, inserts: int
) -> None:
    pipeline = delivering_release / f"{name}.yaml"
    assert icefloe("abandon", pipeline, "--yes").code == code
    assert not code or icefloe("reset", pipeline, "--yes").code == 0
    done = run(pipeline)
    assert (done["insert"], done["update_after"]) == (inserts, 0 if inserts else CHANGED)


def test_files_are_not_delivered_to_another_sink_without_a_reset(release: Path) -> None:
    """A pipeline of a release that knew no such sinks names one now."""
    pipeline = release / "committed.yaml"
    document = yaml.safe_load(pipeline.read_text())
    pipeline.write_text(json.dumps({**document, "sink": {"type": "index"}}))
    with registered_sinks():
        refused = icefloe("run", pipeline)
        assert refused.code == 65
        assert "changed settings that affect its output" in refused.sentence
        assert icefloe("reset", pipeline, "--yes").code == 0
        assert run(pipeline)["insert"] == 30
        assert run(pipeline)["batch"] is None
