"""Pipelines over a store that ignores conditional writes, with a table of DynamoDB in front of it."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.context.batch_folder import FolderMarker
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open import recorded_pipeline
from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.survey import open_batches
from support.pipelines.workspace import Workspace, icefloe
from support.servers.careless_store import careless_store
from support.servers.table_server import Table, table_server

pytestmark = pytest.mark.slow

KINDS = ("insert", "delete", "update_before", "update_after")
TABLE = {"coordination": "dynamodb://icefloe"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.create(tmp_path)
    made.append(1, 2, 3)
    return made


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "any", "SECRET_ACCESS_KEY": "any", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("ICEFLOE_DYNAMODB_ALLOW_HTTP", "true")


@pytest.fixture
def objects(aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The objects of a store that overwrites whatever is there."""
    with careless_store() as (endpoint, served):
        # The store's address is not the table's.
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield served


@pytest.fixture
def table(aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    with table_server() as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", served.endpoint)
        yield served


def require_refused(pipeline: Path, *sentences: str) -> None:
    """Neither `validate` nor `run` takes it, each in these words."""
    for command in ("validate", "run"):
        done = icefloe(command, pipeline)
        assert done.code == 65
        said = done.out if command == "validate" else done.err
        assert [sentence for sentence in sentences if sentence not in said] == []


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def counts(document: Any) -> Counter[str]:
    return +Counter({kind: document[kind] for kind in KINDS})


def test_batches_of_both_routes_are_delivered_over_a_store_that_ignores_conditions(
    workspace: Workspace, objects: dict[str, bytes], table: Table
) -> None:
    pipeline = workspace.pipeline(storage="s3://lake/icefloe", **TABLE)
    assert icefloe("validate", pipeline).code == 0
    assert objects == {}
    assert counts(icefloe("run", pipeline, "--json").document) == {"insert": 3}
    workspace.delete(2)
    assert counts(icefloe("run", pipeline, "--json").document) == {"delete": 1}
    assert icefloe("verify", pipeline).code == 0
    assert icefloe("status", pipeline, "--json").document["lag_snapshots"] == 0
    created = {key for place, key in table.items if place.startswith("s3://lake?endpoint=127.0.0.1:")}
    assert {"offsets/1.json", "commits/1.json"} <= {key.removeprefix("icefloe/checkpoints/events/") for key in created}
    # Each document has one home, and what a batch passes between its phases is gone from both.
    assert not created & {name.removeprefix("/lake/") for name in objects}
    assert not [name for name in (*created, *objects) if "/shuffle/" in name and "_checkpoint.json" not in name]


def test_a_sweep_without_the_table_leaves_everything_alone(
    workspace: Workspace, objects: dict[str, bytes], table: Table
) -> None:
    assert icefloe("run", workspace.pipeline(storage="s3://lake/icefloe", **TABLE)).code == 0
    [marker] = [name for name in objects if name.endswith("/_checkpoint.json")]
    foreign = marker.replace("_checkpoint.json", "0/3.0.late.data")
    objects[foreign] = b"of a zombie"
    done = icefloe("sweep", "s3://lake/icefloe", "--yes")
    assert (done.code, "are left alone; sweep with --coordination, dynamodb_region and" in done.err) == (65, True)
    assert foreign in objects
    done = icefloe("sweep", "s3://lake/icefloe", "--yes", "--coordination", "dynamodb://icefloe")
    assert (done.code, foreign in objects) == (0, False), done


@pytest.mark.parametrize("keys", [{"storage": "s3://lake/icefloe", **TABLE}, {"checkpoint": "dynamodb://icefloe"}])
@pytest.mark.parametrize("elsewhere", ["ICEFLOE_DYNAMODB_REGION", "ICEFLOE_DYNAMODB_ENDPOINT"])
def test_a_sweep_of_another_table_of_that_name_leaves_everything_alone(
    workspace: Workspace,
    objects: dict[str, bytes],
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    keys: dict[str, str],
    elsewhere: str,
) -> None:
    pipeline = workspace.pipeline(**keys)
    assert icefloe("run", pipeline).code == 0
    storage = keys.get("storage", workspace.storage().as_uri())
    written = dict(objects), contents(workspace.storage())
    command = ["sweep", storage, "--yes"]
    command += ["--coordination", "dynamodb://icefloe"] if "coordination" in keys else []
    with table_server() as other, monkeypatch.context() as patches:
        is_region = elsewhere.endswith("REGION")
        if is_region:
            # The server does not look at the region.
            records, table.items = table.items, {}
        patches.setenv(elsewhere, "eu-west-1" if is_region else other.endpoint)
        done = icefloe(*command)
        assert (done.code, "are left alone; sweep with --coordination, dynamodb_region and" in done.err) == (
            65,
            True,
        ), done
    assert (objects, contents(workspace.storage())) == written
    if is_region:
        table.items = records
    assert icefloe(*command).code == 0
    assert icefloe("run", pipeline).code == 0


@pytest.mark.parametrize("keys", [{"storage": "s3://lake/icefloe", **TABLE}, {"checkpoint": "dynamodb://icefloe"}])
def test_a_node_asks_the_table_that_the_pipeline_names(
    workspace: Workspace, objects: dict[str, bytes], table: Table, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str]
) -> None:
    if "coordination" in keys:
        monkeypatch.setenv("TABLE", keys["coordination"])
        keys = {**keys, "coordination": "${TABLE}"}
    assert icefloe("run", workspace.pipeline(**keys)).code == 0
    storage = keys.get("storage", workspace.storage().as_uri())
    [marker] = [each for each in (*objects, *contents(workspace.storage())) if each.endswith("/_checkpoint.json")]
    batch = f"{marker.split('/')[-2]}/0"

    def found() -> set[str]:
        return open_batches([batch], storages=[storage], credentials=Credentials(), environ=os.environ)

    assert found() == set()
    [commit] = [each for each in table.items if each[1].endswith("events/commits/0.json")]
    del table.items[commit]
    assert found() == {batch}
    monkeypatch.setenv("ICEFLOE_DYNAMODB_REGION", "eu-west-1")
    table.items.clear()
    assert found() == {batch}


def test_a_checkpoint_alone_may_be_in_a_table_and_is_of_one_storage(workspace: Workspace, table: Table) -> None:
    for deployment in ("staging", "production"):
        pipeline = workspace.pipeline(
            checkpoint="dynamodb://icefloe/shared",
            storage=(workspace.folder / deployment).as_uri(),
            sink={"type": "files", "path": (workspace.folder / f"{deployment}-changes").as_uri()},
        )
        assert icefloe("validate", pipeline).code == 0
        assert counts(icefloe("run", pipeline, "--json").document) == {"insert": 3}
        assert icefloe("status", pipeline, "--json").document["lag_snapshots"] == 0
        assert icefloe("verify", pipeline).code == 0
    places = [place.rpartition("#")[0] for place, key in table.items if key.endswith("events/commits/0.json")]
    assert places == [f"dynamodb://{(workspace.folder / each).as_uri()}" for each in ("staging", "production")]
    assert not [path for path in workspace.folder.rglob("commits") if path.is_dir()]


def test_a_table_that_does_not_exist_is_refused_with_the_command_that_creates_it(
    workspace: Workspace, objects: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with table_server(lambda _, __: "ResourceNotFoundException") as table:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", table.endpoint)
        pipeline = workspace.pipeline(storage="s3://lake/icefloe", **TABLE)
        require_refused(pipeline, "aws dynamodb create-table --table-name icefloe")
    assert objects == {}


def test_a_bucket_that_cannot_be_written_is_found_although_the_table_can(
    workspace: Workspace, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with careless_store(storm=lambda line, _: 403 if line.startswith("PUT ") else None) as (endpoint, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        require_refused(workspace.pipeline(storage="s3://lake/icefloe", **TABLE), "cannot write s3://lake/icefloe/")
    assert table.items == {}


@pytest.mark.parametrize("edit", [{}, {"coordination": "dynamodb://another"}])
def test_a_pipeline_whose_records_are_in_a_table_does_not_begin_again_without_it(
    workspace: Workspace, objects: dict[str, bytes], table: Table, edit: dict[str, str]
) -> None:
    assert icefloe("run", workspace.pipeline(storage="s3://lake/icefloe", **TABLE)).code == 0
    # The server does not look at the name of a table.
    records, table.items = table.items, {}
    written = dict(objects)
    pipeline = workspace.pipeline(storage="s3://lake/icefloe", **edit)
    require_refused(pipeline, "set coordination to dynamodb://icefloe again")
    assert objects == written
    table.items = records
    assert icefloe("run", workspace.pipeline(storage="s3://lake/icefloe", **TABLE)).code == 0


def test_no_way_out_begins_in_an_empty_checkpoint_whose_records_are_in_a_table(
    workspace: Workspace, objects: dict[str, bytes], table: Table
) -> None:
    pipeline = workspace.pipeline(storage="s3://lake/icefloe", **TABLE)
    assert icefloe("run", pipeline).code == 0
    written, sink = dict(objects), sorted(workspace.folder.glob("changes/**/*"))
    pipeline = workspace.pipeline(storage="s3://lake/icefloe")
    snapshot_id = workspace.table.refresh().metadata.current_snapshot_id
    for command in (("set-cursor", "--snapshot-id", snapshot_id), ("reset",), ("abandon",)):
        done = icefloe(command[0], pipeline, *command[1:], "--yes")
        assert (done.code, "set coordination to dynamodb://icefloe again" in done.err) == (65, True), command
    assert (objects, sorted(workspace.folder.glob("changes/**/*"))) == (written, sink)
    assert icefloe("run", workspace.pipeline(storage="s3://lake/icefloe", **TABLE)).code == 0


def test_an_output_folder_on_such_a_store_is_still_refused(
    workspace: Workspace, objects: dict[str, bytes], table: Table
) -> None:
    sink = {"type": "files", "path": "s3://lake/changes"}
    done = icefloe("run", workspace.pipeline(storage="s3://lake/icefloe", sink=sink, **TABLE))
    assert (done.code, "s3://lake/changes ignores create-if-absent" in done.err) == (65, True)
    assert "as sink.path: coordination is for storage and checkpoint only" in done.err


@pytest.mark.parametrize("keys", [{"storage": "s3://lake/icefloe", **TABLE}, {"checkpoint": "dynamodb://icefloe"}])
def test_a_pipeline_does_not_begin_again_in_a_table_that_has_none_of_its_records(
    workspace: Workspace, objects: dict[str, bytes], table: Table, keys: dict[str, str]
) -> None:
    pipeline = workspace.pipeline(**keys)
    assert icefloe("run", pipeline).code == 0
    workspace.append(4)
    # As a table of that name in another region, or one that was created again.
    records, table.items = table.items, {}
    written = dict(objects)
    require_refused(pipeline, "dynamodb://icefloe", "the table is another region's or account's, or was created again")
    assert (objects, table.items) == (written, {})
    table.items = records
    assert counts(icefloe("run", pipeline, "--json").document) == {"insert": 1}


@pytest.mark.parametrize("is_backfill", [False, True])
def test_a_pipeline_that_another_run_begins_meanwhile_is_not_refused(
    workspace: Workspace, objects: dict[str, bytes], table: Table, monkeypatch: pytest.MonkeyPatch, is_backfill: bool
) -> None:
    pipeline = workspace.pipeline(storage="s3://lake/icefloe", **TABLE)
    bounds = ["--up-to-snapshot-id", workspace.table.metadata.current_snapshot_id] if is_backfill else []
    assert icefloe("run", pipeline, *bounds).code == 0
    records, table.items = table.items, {}
    look = recorded_pipeline._markers

    def late(session: PipelineSession) -> Iterator[FolderMarker]:
        """The other run has written its first records and its marker since this run looked at the checkpoint."""
        table.items = records
        return look(session)

    monkeypatch.setattr(recorded_pipeline, "_markers", late)
    workspace.append(4)
    assert icefloe("run", pipeline, *bounds).code == 0
    assert icefloe("run", pipeline).code == 0
    assert icefloe("verify", pipeline).code == 0
    assert icefloe("status", pipeline, "--json").document["lag_snapshots"] == 0
