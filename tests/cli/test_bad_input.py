"""Bad input: one sentence, the right exit code, nothing half-written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.catalogs import sql_properties
from support.pipelines.workspace import Outcome, Workspace, icefloe


def refused(workspace: Workspace, *arguments: object, code: int = 65) -> str:
    """The sentence of a run that leaves storage and output as they were."""
    before = workspace.files()
    done = icefloe("run", *arguments)
    assert done.code == code, done.err
    assert done.out == ""
    assert workspace.files() == before
    return done.sentence


def line_of(pipeline: Path, key: str) -> int:
    """The line of a key, counted from 1."""
    return next(n for n, text in enumerate(pipeline.read_text().splitlines(), 1) if text.startswith(f"{key}:"))


def test_an_unknown_key_names_line_and_nearest_key(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(brunch="main")
    sentence = refused(workspace, pipeline)
    line = pipeline.read_text().splitlines().index("brunch: main") + 1
    assert sentence.startswith(f"{pipeline}:{line}: ")
    assert "brunch" in sentence
    assert "branch" in sentence.replace("brunch", "")


def test_a_key_that_is_not_built_yet_is_refused(workspace: Workspace) -> None:
    sentence = refused(workspace, workspace.pipeline(sink={"type": "iceberg", "table": "a.b"}))
    assert 'sink.type is "iceberg", but a sink of this name is not built yet' in sentence


def test_a_missing_variable_of_the_environment(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_PLACE", raising=False)
    pipeline = workspace.pipeline(storage="file://${NO_SUCH_PLACE}/storage")
    assert "NO_SUCH_PLACE" in refused(workspace, pipeline)


def test_an_unknown_table(workspace: Workspace) -> None:
    assert "did you mean db.events?" in refused(workspace, workspace.pipeline(table="db.evnts"))


def test_an_unknown_catalog_says_what_airflow_knew(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(workspace.folder))
    sentence = refused(workspace, workspace.pipeline(catalog="lakehouse"))
    assert "there is no catalog 'lakehouse'" in sentence
    assert "Airflow connection" in sentence
    assert "PYICEBERG_CATALOG__LAKEHOUSE__URI" in sentence


def test_an_unknown_branch(workspace: Workspace) -> None:
    assert "'side'" in refused(workspace, workspace.pipeline(branch="side"))


def test_a_missing_identifier_column(workspace: Workspace) -> None:
    pipeline = workspace.pipeline(identifier_columns=["ID"])
    sentence = refused(workspace, pipeline)
    assert sentence.startswith(f"{pipeline}:{line_of(pipeline, 'identifier_columns')}: identifier_columns does not fit")
    assert "'ID'" in sentence
    assert "'id'" in sentence


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"columns": ["vlue"]}, "columns names 'vlue', which the table does not have; did you mean 'value'?"),
        ({"filter": "id >"}, "filter 'id >' cannot be read at character 1"),
        ({"filter": "ids = 1"}, "filter names column 'ids', which table db.events does not have; did you mean 'id'?"),
        ({"filter": "id = 'a'"}, "filter compares column 'id' of table db.events, of type long, with 'a'"),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_columns_and_filters_that_do_not_fit_the_table(
    workspace: Workspace, command: str, keys: dict[str, Any], sentence: str
) -> None:
    pipeline = workspace.pipeline(**keys)
    before = workspace.files()
    done = icefloe(command, pipeline)
    assert (done.code, done.out) == (65, "")
    [key] = keys
    assert done.sentence.startswith(f"{pipeline}:{line_of(pipeline, key)}: {sentence}")
    assert workspace.files() == before


@pytest.mark.parametrize("keys", [{"columns": []}, {"columns": ["id", "id"]}, {"columns": "id"}, {"filter": " "}])
def test_columns_and_filters_of_no_form_name_file_line_and_key(workspace: Workspace, keys: dict[str, Any]) -> None:
    pipeline = workspace.pipeline(**keys)
    [key] = keys
    assert refused(workspace, pipeline).startswith(f"{pipeline}:{line_of(pipeline, key)}: {key} must be ")


def test_a_column_called_like_one_of_ours(workspace: Workspace) -> None:
    with workspace.table.update_schema() as update:
        update.rename_column("word", "_Change_Type")
    renamed = workspace.table.scan().to_arrow()
    workspace.table.append(renamed)
    assert "_Change_Type" in refused(workspace, workspace.folder / "events.yaml")


def test_a_catalog_that_is_down(workspace: Workspace) -> None:
    (workspace.folder / "catalog.db").rename(workspace.folder / "moved.db")
    assert "does not answer" in refused(workspace, workspace.folder / "events.yaml", code=75)


def test_a_rest_catalog_that_is_down(workspace: Workspace) -> None:
    catalog = {"name": "lab", "type": "rest", "uri": "http://127.0.0.1:9"}
    assert "does not answer" in refused(workspace, workspace.pipeline(catalog=catalog), code=75)


@pytest.mark.parametrize("key", ["storage", "sink"])
def test_a_place_that_cannot_be_written(workspace: Workspace, key: str) -> None:
    (workspace.folder / "a_file").write_text("")
    url = f"file://{workspace.folder}/a_file/below"
    keys: dict[str, Any] = {key: url if key == "storage" else {"type": "files", "path": url}}
    pipeline = workspace.pipeline(**keys)
    done = icefloe("run", pipeline)
    assert done.code == 65
    assert f"{workspace.folder}/a_file" in done.sentence
    assert not any(path.is_file() for path in (workspace.folder / "events").rglob("*"))


def test_a_range_whose_start_is_no_ancestor(workspace: Workspace) -> None:
    workspace.table.manage_snapshots().create_branch(workspace.head(), "side").commit()
    workspace.table.append(workspace.table.scan().to_arrow(), branch="side")
    side = workspace.table.refresh().refs()["side"].snapshot_id
    workspace.append(11)
    sentence = refused(workspace, workspace.folder / "events.yaml", "--after-snapshot-id", side)
    assert str(side) in sentence
    assert "ancestor" in sentence


def test_a_range_that_ends_on_another_branch(workspace: Workspace) -> None:
    workspace.table.manage_snapshots().create_branch(workspace.head(), "side").commit()
    workspace.table.append(workspace.table.scan().to_arrow(), branch="side")
    side = workspace.table.refresh().refs()["side"].snapshot_id
    assert str(side) in refused(workspace, workspace.folder / "events.yaml", "--up-to-snapshot-id", side)


def test_a_range_the_wrong_way_round(workspace: Workspace) -> None:
    first = workspace.head()
    second = workspace.append(11)
    bounds = ("--after-snapshot-id", second, "--up-to-snapshot-id", first)
    assert str(second) in refused(workspace, workspace.folder / "events.yaml", *bounds)


def test_an_unknown_snapshot(workspace: Workspace) -> None:
    assert "4711" in refused(workspace, workspace.folder / "events.yaml", "--up-to-snapshot-id", 4711)


def test_an_expired_snapshot_names_the_oldest_one_left(workspace: Workspace) -> None:
    first = workspace.head()
    second = workspace.append(11)
    third = workspace.append(12)
    for snapshot_id in (first, second):
        workspace.table.maintenance.expire_snapshots().by_id(snapshot_id).commit()
    sentence = refused(workspace, workspace.folder / "events.yaml", "--after-snapshot-id", first)
    assert str(first) in sentence
    assert str(third) in sentence


def test_a_cursor_that_expired_is_never_skipped(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    assert icefloe("run", pipeline).code == 0
    first, second, _ = workspace.head(), workspace.append(11), workspace.append(12)
    for snapshot_id in (first, second):
        workspace.table.maintenance.expire_snapshots().by_id(snapshot_id).commit()
    assert str(first) in refused(workspace, pipeline)


def data_file(workspace: Workspace) -> Path:
    [path] = workspace.table.refresh().inspect.data_files()["file_path"].to_pylist()
    return Path(path.removeprefix("file://"))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _empty_the_footer(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-200] + bytes(192) + data[-8:])


def _damage_the_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(byte ^ 0xFF for byte in data[4:200])
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [_truncate, _empty_the_footer, _damage_the_pages, Path.unlink])
def test_a_damaged_data_file_of_the_table_leaves_the_batch_open(
    workspace: Workspace, damage: Callable[[Path], Any]
) -> None:
    pipeline = workspace.folder / "events.yaml"
    path = data_file(workspace)
    whole = path.read_bytes()
    damage(path)
    done = icefloe("run", pipeline)
    assert done.code == 65, done.err
    assert path.name in done.sentence
    delivered = {path.name for path in workspace.output().rglob("*") if path.is_file()}
    assert delivered <= {"_icefloe.json"}
    assert icefloe("status", pipeline, "--json").document["open_batch"] == 0
    path.write_bytes(whole)
    assert icefloe("run", pipeline).document["insert"] == 10


def opened(workspace: Workspace) -> Path:
    """A pipeline whose batch 0 is open."""
    path = data_file(workspace)
    path.rename(path.with_suffix(".away"))
    assert icefloe("run", workspace.folder / "events.yaml").code == 65
    path.with_suffix(".away").rename(path)
    return workspace.folder / "events.yaml"


def test_a_meaning_edited_while_a_batch_is_open_stops_with_both_values(workspace: Workspace) -> None:
    opened(workspace)
    sentence = refused(workspace, workspace.pipeline(identifier_columns=["word"]))
    assert 'identifier_columns was ["id"] and is ["word"]' in sentence
    assert icefloe("run", workspace.pipeline()).document["insert"] == 10


def test_a_tuning_key_edited_while_a_batch_is_open_keeps_its_recorded_value(workspace: Workspace) -> None:
    opened(workspace)
    done = icefloe("run", workspace.pipeline(shuffle={"partitions": 7}))
    assert (done.code, done.document["insert"]) == (0, 10)


def test_a_table_dropped_and_created_again_stops(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    assert icefloe("run", pipeline).code == 0
    workspace.table.catalog.drop_table("db.events")
    workspace.table.catalog.create_table("db.events", workspace.table.schema())
    assert "dropped and created again" in refused(workspace, pipeline)


@pytest.mark.parametrize("record", ["offsets/0.json", "pipeline.json"])
def test_a_damaged_record_of_the_checkpoint(workspace: Workspace, record: str) -> None:
    opened(workspace)
    path = workspace.storage() / "checkpoints" / "events" / record
    path.write_bytes(path.read_bytes()[:-40])
    assert str(path) in refused(workspace, workspace.folder / "events.yaml")


def test_a_damaged_plan(workspace: Workspace) -> None:
    opened(workspace)
    [path] = (workspace.storage() / "shuffle" / "events").glob("*/0/plan.json")
    path.write_bytes(b"{}")
    assert str(path) in refused(workspace, workspace.folder / "events.yaml")


def test_a_file_that_is_not_yaml(workspace: Workspace) -> None:
    path = workspace.folder / "broken.yaml"
    path.write_text("table: [unclosed")
    assert str(path) in refused(workspace, path)


def test_every_fault_of_a_file_is_a_line_of_its_own(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(brunch="main", changes="all"))
    assert done.code == 65
    assert len(done.err.splitlines()) == 2
    assert all(line.startswith("icefloe: ") for line in done.err.splitlines())


def test_verbose_adds_the_traceback(workspace: Workspace) -> None:
    done: Outcome = icefloe("run", workspace.pipeline(table="db.evnts"), "--verbose")
    assert done.code == 65
    assert "Traceback" in done.err
    assert sql_properties(workspace.folder)["uri"] not in done.out
