"""This release goes on from what release 70b12fe left."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.cli.pipeline_session import open_session
from icefloe.pipeline.pipeline_file import load_pipeline
from support.catalogs import open_sql_catalog
from support.pipelines.workspace import icefloe
from support.tables.events import rows


def run(pipeline: Path, *arguments: object) -> dict[str, Any]:
    done = icefloe("run", pipeline, *arguments, "--json")
    assert done.code == 0, done.err
    return done.document


def table_in(folder: Path) -> Table:
    return open_sql_catalog("lab", folder).load_table("db.events")


def verified(pipeline: Path) -> bool:
    return verify_batches(open_session(load_pipeline(pipeline))).is_equal


def test_committed_batches_are_followed_by_the_next(release: Path) -> None:
    pipeline, table = release / "committed.yaml", table_in(release)
    assert run(pipeline)["batch"] is None
    table.append(rows([40], 1.0).select(["id", "value"]))
    assert (run(pipeline)["batch"], verified(pipeline)) == (2, True)


def test_an_open_batch_goes_on_with_its_range_and_its_map_outputs(release: Path) -> None:
    pipeline, table = release / "opened.yaml", table_in(release)
    up_to = table.current_snapshot()
    assert up_to is not None
    table.append(rows([40], 1.0).select(["id", "value"]))
    data = release / "warehouse/db/events/data"
    away = data.rename(data.with_name("away"))
    done = run(pipeline)
    away.rename(data)
    assert (done["batch"], done["up_to_snapshot_id"]) == (1, str(up_to.snapshot_id))
    assert (done["update_before"], done["update_after"]) == (2, 2)
    assert (run(pipeline)["batch"], verified(pipeline)) == (2, True)


def test_a_load_in_parts_goes_on_after_the_parts_that_are_delivered(release: Path) -> None:
    pipeline = release / "parts.yaml"
    batches = [run(pipeline) for _ in range(4)]
    assert [each["batch"] for each in batches] == [1, 2, 3, None]
    assert [each.get("insert") for each in batches] == [10, 10, 0, 0]
    assert verified(pipeline)


def test_a_backfill_goes_on_at_its_own_place(release: Path) -> None:
    [place] = release.glob("backfill/changes/_backfills/*")
    after = place.name.partition("-")[0]
    done = run(release / "backfill.yaml", "--after-snapshot-id", after)
    assert (done["batch"], done["update_after"]) == (0, 2)
    assert [each.name for each in release.glob("backfill/changes/_backfills/*")] == [place.name]
    assert (place / "batch=0/_manifest.json").exists()


@pytest.mark.parametrize("name", ["opened", "parts"])
def test_an_open_batch_can_be_abandoned(release: Path, name: str) -> None:
    pipeline = release / f"{name}.yaml"
    done = icefloe("abandon", pipeline, "--yes", "--json")
    assert (done.code, done.document["batch"]) == (0, 1)
    while run(pipeline)["batch"] is not None:
        pass
    assert verified(pipeline)
