"""Attacks of the writer of a table on its readers, through every command that opens the table."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.typedef import Record

from icefloe.orchestration.tasks.calls import work_of
from icefloe.pipeline.model import Pipeline
from support.catalogs import sql_properties
from support.fakes.answering_server import answering_server
from support.fakes.rest_server import rest_server
from support.pipelines.workspace import Workspace, icefloe
from support.tables.events import rows

COMMANDS = (("validate",), ("plan",), ("status",), ("run", "--json"), ("verify",))


def no_such_key(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
    del request
    return 404, {"Content-Type": "application/xml"}, b"<Error><Code>NoSuchKey</Code></Error>"


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that is there as soon as ``hostile_files`` was imported."""
    found = tmp_path / "mark"
    code = "import pathlib\nfrom pyiceberg.io.pyarrow import PyArrowFileIO as Files\n"
    (tmp_path / "hostile_files.py").write_text(f"{code}pathlib.Path({str(found)!r}).touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    return found


@pytest.fixture
def hostile(workspace: Workspace, mark: Path) -> Workspace:
    with workspace.table.transaction() as transaction:
        transaction.set_properties({"py-io-impl": "hostile_files.Files"})
    mark.unlink(missing_ok=True)
    sys.modules.pop("hostile_files", None)
    return workspace


@pytest.fixture(params=["sql", "rest"])
def pipeline(request: pytest.FixtureRequest, hostile: Workspace) -> Iterator[Path]:
    catalog: dict[str, str] = {"name": "lab", **sql_properties(hostile.folder)}
    with ExitStack() as stack:
        if request.param == "rest":
            uri = stack.enter_context(rest_server(hostile.metadata(), hostile.table.metadata_location))
            catalog = {"type": "rest", "uri": uri}
        yield hostile.pipeline(catalog=catalog)


def test_no_command_imports_the_class_that_a_table_names(pipeline: Path, mark: Path) -> None:
    for command, *options in COMMANDS:
        done = icefloe(command, pipeline, *options)
        assert (command, done.code, done.err) == (command, 0, "")
        assert not mark.exists()
    assert "hostile_files" not in sys.modules


def test_neither_sensor_nor_page_imports_it(pipeline: Path, mark: Path) -> None:
    from icefloe.orchestration.page import page_documents

    assert work_of(Pipeline.load(pipeline)).is_due
    assert len(page_documents._load(Pipeline.load(pipeline))["snapshots"]) == 1
    assert page_documents._look(Pipeline.load(pipeline), {})["lag_snapshots"] == 1
    assert not mark.exists()


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_no_signed_request_goes_to_the_endpoint_that_a_table_names(workspace: Workspace, command: str) -> None:
    metadata = workspace.metadata()
    metadata["location"] = "s3://lake/events"
    for snapshot in metadata["snapshots"]:
        snapshot["manifest-list"] = "s3://lake/events/metadata/list.avro"
    vended = {"s3.access-key-id": "key", "s3.secret-access-key": "secret", "s3.session-token": "token"}
    with answering_server(no_such_key) as (store, asked), answering_server(no_such_key) as (thief, stolen):
        metadata["properties"] = {"s3.endpoint": thief, "s3.proxy-uri": thief, "s3.region": "thief-1"}
        config = {**vended, "s3.endpoint": store, "s3.region": "us-east-1"}
        with rest_server(metadata, "s3://lake/events/metadata/1.metadata.json", config=config) as uri:
            done = icefloe(command, workspace.pipeline(catalog={"type": "rest", "uri": uri}, max_scan_bytes="1GiB"))
    assert (done.code, stolen) == (65, [])
    assert asked


def test_a_data_file_elsewhere_is_refused_when_it_is_planned_and_read_when_it_is_allowed(
    workspace: Workspace, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "of_others"
    elsewhere.mkdir()
    pq.write_table(rows([77], 1.0), elsewhere / "a.parquet")
    workspace.table.add_files([f"file://{elsewhere}/a.parquet"])
    for command in ("plan", "run"):
        done = icefloe(command, workspace.pipeline())
        assert (done.code, done.out) == (65, "")
        place = f"file://{tmp_path}/warehouse"
        assert f"names the file file://{elsewhere}/a.parquet, which is outside {place}" in done.sentence
    assert not workspace.storage().exists(), "a batch was opened"
    allowed = workspace.pipeline(allowed_locations=[f"file://{elsewhere}"])
    assert icefloe("run", allowed, "--json").document["insert"] == 11
    assert icefloe("verify", allowed).code == 0


@pytest.mark.parametrize("what", ["manifest list", "metadata of before"])
def test_metadata_elsewhere_is_refused_before_it_is_asked_for(workspace: Workspace, tmp_path: Path, what: str) -> None:
    workspace.append(11)
    metadata = workspace.metadata()
    if what == "manifest list":
        metadata["snapshots"][-1]["manifest-list"] = "hdfs://evil:8020/list.avro"
    else:
        metadata["metadata-log"] = [
            {**entry, "metadata-file": "hdfs://evil:8020/0.metadata.json"} for entry in metadata["metadata-log"]
        ]
    with rest_server(metadata, workspace.table.metadata_location) as uri:
        keys = {} if what == "manifest list" else {"initial_load": "from_earliest"}
        done = icefloe("run", workspace.pipeline(catalog={"type": "rest", "uri": uri}, **keys))
    assert done.code == 65
    assert done.sentence.startswith("table db.events names the file hdfs://evil:8020/")


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("file", ["metadata/0*.json", "data/*.parquet"])
def test_a_link_that_leads_out_of_the_warehouse_is_refused_and_read_when_it_is_allowed(
    workspace: Workspace, tmp_path: Path, file: str, is_folder: bool
) -> None:
    table, other = tmp_path / "warehouse" / "db" / "events", tmp_path / "other" / "warehouse"
    linked = (table / file).parent if is_folder else max(table.glob(file))
    other.mkdir(parents=True)
    linked.rename(other / linked.name)
    linked.symlink_to(other / linked.name)
    for command in ("plan", "run"):
        done = icefloe(command, workspace.pipeline())
        assert (done.code, done.out) == (65, "")
        assert f" (links lead to file://{other}/" in done.sentence
        assert f"), which is outside file://{tmp_path}/warehouse" in done.sentence
    assert not workspace.storage().exists(), "a batch was opened"
    allowed = workspace.pipeline(allowed_locations=[f"file://{other}"])
    assert icefloe("run", allowed, "--json").document["insert"] == 10
    assert icefloe("verify", allowed).code == 0


def test_a_table_that_claims_a_folder_of_others_opens_nothing_but_its_own(workspace: Workspace, tmp_path: Path) -> None:
    private = tmp_path / "of_others" / "private.avro"
    private.parent.mkdir()
    private.write_bytes(b"Obj")
    metadata = workspace.metadata() | {"location": f"file://{private.parent}"}
    metadata["snapshots"][-1]["manifest-list"] = f"file://{private}"
    with rest_server(metadata, workspace.table.metadata_location) as uri:
        done = icefloe("run", workspace.pipeline(catalog={"type": "rest", "uri": uri}))
    assert done.code == 65
    assert f"names the file file://{private}" in done.sentence


class DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes manifests of data files only."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def test_a_delete_file_elsewhere_is_refused_when_it_is_planned(workspace: Workspace) -> None:
    table, io = workspace.table, workspace.table.io
    [snapshot] = table.metadata.snapshots
    folder = f"file://{workspace.folder}/warehouse/db/events/metadata"
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path="s3://evil/deletes.parquet", file_format=FileFormat.PARQUET,
        partition=Record(), record_count=1, file_size_in_bytes=100, _table_format_version=2,
    )  # fmt: skip
    manifest = io.new_output(f"{folder}/deletes.avro")
    with DeleteManifestWriter(table.spec(), table.schema(), manifest, snapshot.snapshot_id, "deflate") as writer:
        writer.add(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=snapshot.snapshot_id, data_file=deletes
            )
        )
    manifest_list = io.new_output(f"{folder}/list.avro")
    with write_manifest_list(2, manifest_list, snapshot.snapshot_id, None, 1, "deflate") as manifests:
        manifests.add_manifests([*snapshot.manifests(io), writer.to_manifest_file()])
    metadata = workspace.metadata()
    metadata["snapshots"][0]["manifest-list"] = f"{folder}/list.avro"
    with rest_server(metadata, table.metadata_location) as uri:
        done = icefloe("run", workspace.pipeline(catalog={"type": "rest", "uri": uri}))
    assert done.code == 65
    assert "names the file s3://evil/deletes.parquet, which is outside " in done.sentence
    assert not workspace.storage().exists(), "a batch was opened"
