"""Bad input: one sentence, the right exit code, nothing half-written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.catalogs import sql_properties
from support.pipelines.workspace import Workspace, icefloe


def refused(workspace: Workspace, *arguments: object, code: int = 65) -> str:
    """The sentence of a run that leaves storage and output as they were."""
    before = workspace.files()
    done = icefloe("run", *arguments)
    assert done.code == code, done.err
    assert done.out == ""
    assert workspace.files() == before
    return done.sentence


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"brunch": "main"}, "{line}unknown key 'brunch'; the nearest known key is 'branch'"),
        ({"sink": {"type": "redis", "table": "a.b"}}, '{line}sink.type is "redis", but a sink of this name is not'),
        ({"storage": "file://${NO_SUCH_PLACE}/storage"}, "{line}storage uses ${{NO_SUCH_PLACE}}, which is not set"),
        ({"table": "db.evnts"}, "catalog 'lab' has no table db.evnts: did you mean db.events?"),
        ({"branch": "side"}, "has no branch 'side'"),
        ({"catalog": "lakehouse"}, "there is no catalog 'lakehouse'"),
        ({"catalog": "lakehouse"}, "PYICEBERG_CATALOG__LAKEHOUSE__URI"),
        ({"identifier_columns": ["ID"]}, "{line}identifier_columns does not fit"),
        ({"columns": ["vlue"]}, "{line}selected column 'vlue' is not in the table; did you mean 'value'?"),
        ({"filter": "id >"}, "{line}filter 'id >' cannot be read as"),
        ({"filter": "ids = 1"}, "{line}filter names column 'ids', which table db.events does not have; did you mean"),
        ({"filter": "id = 'a'"}, "{line}filter compares column 'id' of table db.events, of type long, with 'a'"),
        ({"columns": ["id", "id"]}, "{line}columns must be "),
    ],
)
def test_a_wrong_key_is_one_sentence_with_its_line(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(workspace.folder))
    pipeline = workspace.pipeline(**keys)
    [key] = keys
    lines = [number for number, text in enumerate(pipeline.read_text().splitlines(), 1) if text.startswith(f"{key}:")]
    said = refused(workspace, pipeline)
    place = f"{pipeline}:{lines[0]}: "
    expected = sentence.format(line=place)
    assert expected in said or (key == "sink" and sentence.format(line="") in said)
    planned = icefloe("plan", pipeline)
    assert (planned.code, planned.out, planned.sentence) == (65, "", said)


def test_a_column_called_like_one_of_ours(workspace: Workspace) -> None:
    with workspace.table.update_schema() as update:
        update.rename_column("word", "_Change_Type")
    workspace.table.append(workspace.table.scan().to_arrow())
    assert "_Change_Type" in refused(workspace, workspace.folder / "events.yaml")
    assert "_Change_Type" in icefloe("validate", workspace.folder / "events.yaml").out


def test_a_catalog_that_is_down_is_worth_another_try(workspace: Workspace) -> None:
    closed = {"name": "lab", "type": "rest", "uri": "http://127.0.0.1:9"}
    assert "does not answer" in refused(workspace, workspace.pipeline(catalog=closed), code=75)
    (workspace.folder / "catalog.db").rename(workspace.folder / "moved.db")
    assert "does not answer" in refused(workspace, workspace.pipeline(), code=75)


@pytest.mark.parametrize("key", ["storage", "sink"])
def test_a_place_that_cannot_be_written(workspace: Workspace, key: str) -> None:
    (workspace.folder / "a_file").write_text("")
    url = f"file://{workspace.folder}/a_file/below"
    keys: dict[str, Any] = {key: url if key == "storage" else {"type": "files", "path": url}}
    done = icefloe("run", workspace.pipeline(**keys))
    assert done.code == 65
    assert f"{workspace.folder}/a_file" in done.sentence
    assert not any(path.is_file() for path in (workspace.folder / "events").rglob("*"))


def test_a_range_that_is_none(workspace: Workspace) -> None:
    first = workspace.head()
    workspace.table.manage_snapshots().create_branch(first, "side").commit()
    workspace.table.append(workspace.table.scan().to_arrow(), branch="side")
    side = workspace.table.refresh().refs()["side"].snapshot_id
    second = workspace.append(11)
    for bounds, words in [
        (("--after-snapshot-id", side), f"{side}"),
        (("--after-snapshot-id", side), "ancestor"),
        (("--up-to-snapshot-id", side), f"{side}"),
        (("--after-snapshot-id", second, "--up-to-snapshot-id", first), f"{second}"),
        (("--up-to-snapshot-id", 4711), "4711"),
    ]:
        assert words in refused(workspace, workspace.folder / "events.yaml", *bounds)


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
    assert {path.name for path in workspace.output().rglob("*") if path.is_file()} <= {"_icefloe.json"}
    assert icefloe("status", pipeline, "--json").document["open_batch"] == 0
    path.write_bytes(whole)
    assert icefloe("run", pipeline).document["insert"] == 10


def test_a_table_dropped_and_created_again_stops(workspace: Workspace) -> None:
    pipeline = workspace.folder / "events.yaml"
    assert icefloe("run", pipeline).code == 0
    workspace.table.catalog.drop_table("db.events")
    workspace.table.catalog.create_table("db.events", workspace.table.schema())
    assert "dropped and created again" in refused(workspace, pipeline)
    assert "dropped and created again" in icefloe("status", pipeline, "--json").document["trouble"]


def test_every_fault_of_a_file_is_a_line_of_its_own(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(brunch="main", changes="all"))
    assert done.code == 65
    assert [line.startswith("icefloe: ") for line in done.err.splitlines()] == [True, True]
    path = workspace.folder / "broken.yaml"
    path.write_text("table: [unclosed")
    assert str(path) in refused(workspace, path)


def test_verbose_adds_the_traceback(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(table="db.evnts"), "--verbose")
    assert done.code == 65
    assert "Traceback" in done.err
    assert sql_properties(workspace.folder)["uri"] not in done.out
