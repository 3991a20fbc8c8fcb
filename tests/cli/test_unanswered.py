"""Commands whose catalog or store takes every connection and never answers, as real processes."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from icefloe.patience import PATIENCE_VARIABLE
from support.catalogs import sql_properties
from support.fakes.unanswering import drip_headers, garbage, keep_silent, serving
from support.pipelines.workspace import Outcome, Workspace, forked_module
from support.tiers import extended

pytestmark = pytest.mark.slow

PATIENCE = "2.4"
PATIENCE_WITH_A_CATALOG = "10"
"""Of a command whose catalog answers, and needs the processor for it, before its store keeps silent."""
SILENT = [keep_silent, extended(drip_headers)]


def hurried(command: str, pipeline: Path, *, patience: str = PATIENCE, **environ: str) -> Outcome:
    return forked_module("icefloe", command, pipeline, **{PATIENCE_VARIABLE: patience, **environ})


def silent_store(port: int) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "x",
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s",
    }  # fmt: skip


PLACES = {"catalog": "catalog 'lake' does not answer: cannot open it", "store": "s3://lake"}


@pytest.mark.parametrize("behaviour", SILENT)
@pytest.mark.parametrize(
    ("place", "command"),
    [("catalog", "run"), ("catalog", "validate"), ("store", "run"), ("store", "status"), ("store", "batches")],
)
def test_a_command_whose_catalog_or_store_does_not_answer_names_it_and_ends(
    workspace: Workspace, behaviour: Callable[..., None], command: str, place: str
) -> None:
    with serving(behaviour) as port:
        if place == "catalog":
            pipeline = workspace.pipeline(catalog={"name": "lake", "type": "rest", "uri": f"http://127.0.0.1:{port}"})
            outcome = hurried(command, pipeline)
        else:
            sink = {"type": "files", "path": "s3://lake/changes"}
            pipeline = workspace.pipeline(storage="s3://lake/icefloe", sink=sink)
            outcome = hurried(command, pipeline, patience=PATIENCE_WITH_A_CATALOG, **silent_store(port))
    assert outcome.code == 75, outcome
    assert PLACES[place] in outcome.out + outcome.err


def test_a_command_whose_table_lies_in_a_store_that_does_not_answer_names_it(workspace: Workspace) -> None:
    with sqlite3.connect(workspace.folder / "catalog.db") as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = 's3://tables/events/7.metadata.json'")
    with serving(keep_silent) as port:
        given = {"s3.endpoint": f"http://127.0.0.1:{port}", "s3.region": "x", "s3.request-timeout": "1"}
        pipeline = workspace.pipeline(catalog={"name": "lab", **sql_properties(workspace.folder), **given})
        outcome = forked_module("icefloe", "run", pipeline, **silent_store(port))
    assert outcome.code == 75, outcome
    text = outcome.out + outcome.err
    assert "cannot read the metadata file of table db.events" in text
    assert "tables" in text


@pytest.mark.parametrize("command", ["run", "batches"])
def test_a_store_that_answers_a_page_to_everything_is_one_sentence(workspace: Workspace, command: str) -> None:
    pipeline = workspace.pipeline(storage="s3://lake/icefloe", sink={"type": "files", "path": "s3://lake/changes"})
    with serving(garbage) as port:
        # A page is no answer to a deletion either, which is tried as long as patience lasts.
        outcome = hurried(command, pipeline, patience=PATIENCE_WITH_A_CATALOG, **silent_store(port))
    assert outcome.code == 65, outcome
    assert "s3://lake" in outcome.out + outcome.err
    assert "Traceback" not in outcome.err


def test_metadata_that_is_nested_without_end_is_one_sentence(workspace: Workspace) -> None:
    path = Path(workspace.table.metadata_location.removeprefix("file://"))
    path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    outcome = forked_module("icefloe", "run", workspace.pipeline())
    assert outcome.code == 65, outcome
    assert "Traceback" not in outcome.err
