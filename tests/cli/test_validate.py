from pathlib import Path
from typing import Any

import pytest

from support.pipelines.workspace import Outcome, Workspace, icefloe

UNBUILT: dict[str, Any] = {"sink": {"type": "redis", "table": "a.b"}}
"""A key that this release does not support."""


def marks(done: Outcome) -> dict[str, str]:
    """The mark of each check by its name."""
    return {line.split()[1]: line.split()[0] for line in done.out.splitlines()}


def failed(done: Outcome) -> set[str]:
    return {name for name, mark in marks(done).items() if mark == "✗"}


def test_a_usable_pipeline_passes_every_check_and_no_file_is_left_behind(workspace: Workspace) -> None:
    before = {path for path in workspace.files() if path.is_file()}
    done = icefloe("validate", workspace.folder / "events.yaml")
    assert {path for path in workspace.files() if path.is_file()} == before
    assert (done.code, done.err) == (0, "")
    assert set(marks(done).values()) == {"✓"}
    assert list(marks(done)) == [
        "file", "name", "release", "engine", "storage", "sink", "catalog", "table", "branch", "columns",
        "identity", "checkpoint",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"brunch": "main"}, {"file"}),
        (UNBUILT, {"release", "sink"}),
        ({"table": "db.evnts"}, {"table"}),
        ({"branch": "side"}, {"branch"}),
        ({"identifier_columns": ["ID"]}, {"identity"}),
        ({"columns": ["vlue"]}, {"columns"}),
        ({"filter": "id >"}, {"columns"}),
        ({"catalog": "nowhere"}, {"catalog"}),
        ({"max_scan_bytes": 1}, {"checkpoint"}),
        ({"engine": "spark", "spark": {"conf": {"spark.master": "nowhere"}}}, {"engine"}),
        (
            {"engine": "spark", "spark": {"conf": {"spark.master": "nowhere"}}, "identifier_columns": ["ID"],
             "storage": "file:///proc/no"},
            {"engine", "storage", "identity"},
        ),
    ],
)  # fmt: skip
def test_each_fault_has_a_cross_and_exits_65(
    workspace: Workspace, keys: dict[str, Any], names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(workspace.folder))
    done = icefloe("validate", workspace.pipeline(**keys))
    assert done.code == 65
    assert failed(done) >= names
    assert len(names) > 2 or failed(done) == names


def test_a_job_that_would_take_a_whole_cluster_without_the_table_is_reported(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    conf = {"spark.master": "spark://host:7077"}
    sink = {"type": "files", "path": "memory://changes"}
    pipeline = workspace.pipeline(engine="spark", storage="memory://storage", sink=sink, spark={"conf": conf})
    done = icefloe("validate", pipeline)
    assert "engine     spark; credentials cross the network to the workers of spark" in done.out
    assert "✗ table      the location of db.events is file:" in done.out


def test_transient_errors_exit_75_unless_there_is_a_final_one(workspace: Workspace) -> None:
    (workspace.folder / "catalog.db").unlink()
    done = icefloe("validate", workspace.folder / "events.yaml")
    assert (done.code, failed(done)) == (75, {"catalog"})
    assert icefloe("validate", workspace.pipeline(**UNBUILT)).code == 65


def test_a_meaning_edited_after_the_first_batch(workspace: Workspace) -> None:
    icefloe("run", workspace.folder / "events.yaml")
    assert failed(icefloe("validate", workspace.pipeline(identifier_columns=["word"]))) == {"checkpoint"}


def test_a_name_that_another_file_of_the_folder_has(workspace: Workspace) -> None:
    other = workspace.pipeline("other")
    done = icefloe("validate", other)
    assert (done.code, failed(done)) == (65, {"name"})
    assert f"{other} and {workspace.folder / 'events.yaml'} are both called 'events'" in done.out
    assert icefloe("validate", workspace.pipeline("other", name="other")).code == 0


def test_a_table_that_is_waited_for_is_no_fault_and_an_unknown_pipeline_exits_2(workspace: Workspace) -> None:
    done = icefloe("validate", workspace.pipeline(table="db.later", wait_for_table=True))
    assert (done.code, "does not exist yet" in done.out) == (0, True)
    assert icefloe("validate", "no/such.yaml").code == 2


def test_checks_are_reported_to_programs_too(workspace: Workspace) -> None:
    done = icefloe("validate", workspace.folder / "events.yaml", "--json")
    assert len(done.out.splitlines()) == 1
    assert done.document["exit_code"] == done.code == 0
    assert [check["is_passed"] for check in done.document["checks"]] == [True] * len(done.document["checks"])
    failed = icefloe("validate", workspace.pipeline(table="db.nothing"), "--json")
    assert failed.document["exit_code"] == failed.code == 65
    [told] = [check for check in failed.document["checks"] if not check["is_passed"]]
    assert told["check"] == "table"


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
@pytest.mark.parametrize(
    ("below", "sentence"),
    [
        ("events/storage/shuffle/events/changes", "is inside the shuffle folder"),
        ("warehouse/db/events/changes", "is inside the location of table db.events"),
    ],
)
def test_an_output_among_files_of_others_is_refused_before_anything_is_written(
    workspace: Workspace, command: str, below: str, sentence: str, tmp_path: Path
) -> None:
    done = icefloe(command, workspace.pipeline(sink={"type": "files", "path": f"file://{tmp_path}/{below}"}))
    assert done.code == 65
    assert "events.yaml:" in done.out + done.err or "location" in sentence
    assert "sink.path, file:///" in done.out + done.err
    assert sentence in done.out + done.err
    assert command == "validate" or not workspace.storage().exists()
