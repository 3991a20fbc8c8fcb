"""A check stops a batch before anybody sees it, and is read again from the pipeline file at each try."""

import json
import logging
import re
import sys
from typing import Any

import duckdb
import pytest

from batch.deliver.delivered import Delivered
from icefloe.batch.context.references import BatchReference
from icefloe.batch.deliver.check_batch import BatchChecks
from icefloe.errors import TransientError
from icefloe.sinks.change_files import ChangeFiles
from sinks.written_parts import DAMAGES
from support.pipelines.workspace import Workspace, icefloe, python

LARGE = {"name": "large", "query": "SELECT id, value FROM changes WHERE value > 100 ORDER BY id"}


def results(workspace: Workspace, batch: int) -> list[dict[str, Any]]:
    [record] = workspace.storage().glob(f"shuffle/events/*/{batch}/phases/check.json")
    return json.loads(record.read_text())["checks"]


def phase(workspace: Workspace, batch: int) -> dict[str, Any]:
    report = json.loads((workspace.storage() / f"checkpoints/events/reports/{batch}.json").read_text())
    [record] = [each for each in report["phases"] if each["phase"] == "check"]
    return record


def reported(workspace: Workspace, batch: int) -> list[dict[str, Any]]:
    return phase(workspace, batch)["checks"]


def test_a_batch_without_wrong_rows_is_delivered_and_its_report_says_so(workspace: Workspace) -> None:
    assert icefloe("run", workspace.pipeline(checks=[LARGE])).code == 0
    [found] = reported(workspace, 0)
    assert (found["name"], found["outcome"], found["rows"], found["samples"]) == ("large", "passed", 0, [])
    assert len(workspace.delivered(0)) > 0


def test_wrong_rows_stop_the_batch_before_readers_see_it_and_another_query_lets_it_go_on(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    workspace.append(*range(20, 27), value=4711.5)
    with caplog.at_level(logging.DEBUG, logger="icefloe"):
        done = icefloe("run", workspace.pipeline(checks=[LARGE]))
    assert done.code == 65
    assert f"batch 0 of events (after snapshot the beginning, up to snapshot {workspace.head()}) is not delivered" in (
        done.sentence
    )
    assert "check large found 7 wrong rows" in done.sentence
    assert "4711" not in done.out + done.err + caplog.text
    assert not list(workspace.output().glob("batch=0/_manifest.json"))
    [found] = results(workspace, 0)
    assert (found["outcome"], found["rows"], len(found["samples"])) == ("failed", 7, 5)
    assert found["samples"][0] == {"id": "20", "value": "4711.5"}
    assert icefloe("run", workspace.pipeline(checks=[LARGE])).code == 65
    query = LARGE["query"].replace("100", "10000")
    assert icefloe("run", workspace.pipeline(checks=[LARGE | {"query": query}])).code == 0
    assert sum(map(len, workspace.delivered(0).values())) == 17
    assert (phase(workspace, 0)["attempts"], phase(workspace, 0)["attempts_lost"]) == (3, 0)
    assert icefloe("verify", workspace.pipeline(checks=[LARGE])).code == 0


def test_a_warning_delivers_the_batch(workspace: Workspace) -> None:
    done = icefloe("run", workspace.pipeline(checks=[LARGE | {"query": "FROM changes", "on_failure": "warn"}]))
    assert done.code == 0
    assert "check large found 10 wrong rows: warned" in done.err
    report = json.loads((workspace.storage() / "checkpoints/events/reports/0.json").read_text())
    assert "check large found 10 wrong rows" in report["warnings"]
    assert reported(workspace, 0)[0]["outcome"] == "warned"


def test_all_checks_run_and_the_error_names_each_that_failed(workspace: Workspace) -> None:
    checks = [LARGE | {"name": f"of_{key}", "query": f"FROM changes WHERE id = {key}"} for key in (3, 4711, 5)]
    done = icefloe("run", workspace.pipeline(checks=checks))
    assert "is not delivered: check of_3 found 1 wrong row, check of_5 found 1 wrong row; " in done.sentence
    assert [each["outcome"] for each in results(workspace, 0)] == ["failed", "passed", "failed"]


def test_a_query_that_does_not_end_stops_the_batch_and_no_value_is_in_the_error(workspace: Workspace) -> None:
    broken = LARGE | {"query": "SELECT CAST(concat('v', value) AS INTEGER) AS n FROM changes"}
    done = icefloe("run", workspace.pipeline(checks=[broken]))
    assert (done.code, "check large did not end; " in done.sentence, "v1" in done.err) == (65, True, False)
    assert "Could not convert string 'v1" in results(workspace, 0)[0]["error"]


def test_a_batch_without_a_change_is_checked_and_a_run_without_a_batch_is_not(workspace: Workspace) -> None:
    some = LARGE | {"query": "SELECT 'no change' FROM changes HAVING count(*) = 0"}
    assert icefloe("run", workspace.pipeline(checks=[some])).code == 0
    assert icefloe("run", workspace.pipeline(checks=[some])).document["batch"] is None
    workspace.table.overwrite(workspace.table.scan().to_arrow())
    done = icefloe("run", workspace.pipeline(checks=[some]))
    assert (done.code, "batch 1 of events" in done.sentence) == (65, True)


def test_a_backfill_is_checked_before_its_files_are_whole(workspace: Workspace) -> None:
    first = workspace.head()
    last = workspace.append(30, value=4711.5)
    pipeline, span = workspace.pipeline(checks=[LARGE]), ("--after-snapshot-id", first, "--up-to-snapshot-id", last)
    done = icefloe("run", pipeline, *span)
    assert done.code == 65
    assert not list(workspace.output().rglob("_manifest.json"))
    # The command that it names gives up the backfill, not a batch of the pipeline.
    [command] = re.findall(r"icefloe (abandon .*)", done.sentence)
    given_up = icefloe(*command.split()[:1], pipeline, *command.split()[2:], "--yes")
    assert (given_up.code, "backfill" in given_up.out + given_up.err) == (0, True)
    assert icefloe("run", workspace.pipeline(), *span).code == 0


def test_a_sink_gets_nothing_of_a_batch_that_fails_and_all_of_it_afterwards(lab: Delivered) -> None:
    few = LARGE | {"query": "FROM changes WHERE _change_type = 'INSERT'"}
    lab.append(*range(10))
    done = lab.deliver(checks=[few])
    assert (done.code, lab.documents(), list(lab.storage().rglob("begun.json"))) == (65, {}, [])
    assert lab.deliver(checks=[few | {"query": "FROM changes WHERE id > 100"}]).code == 0
    assert len(lab.documents()) == 10


def test_a_check_of_a_batch_that_is_staged_runs_until_a_sink_may_have_some_of_it(
    lab: Delivered, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.append(*range(10))
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.deliver.deliver_batch._begun_batch", None)
        assert lab.deliver(checks=[LARGE]).code == 70
    assert list(lab.storage().glob("staged/events/batch=0/_manifest.json"))
    every = LARGE | {"query": "FROM changes"}
    assert "check large found 10 wrong rows" in lab.deliver(checks=[every]).sentence
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.deliver.commit_batch.report_of", None)
        assert lab.deliver(checks=[LARGE]).code == 70
    assert lab.deliver(checks=[every]).code == 0


@pytest.mark.parametrize("route", ["insert_only", "shuffle"])
@pytest.mark.parametrize("damage", ["deleted", "emptied"])
def test_a_part_that_is_damaged_before_its_check_is_written_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, route: str, damage: str
) -> None:
    if route == "shuffle":
        assert icefloe("run", workspace.pipeline()).code == 0
        workspace.update(3, value=2.0)

    def stop(*_: object) -> None:
        raise TransientError("the run died")

    with monkeypatch.context() as patched:
        patched.setattr(BatchChecks, "run", stop)
        assert icefloe("run", workspace.pipeline(checks=[LARGE])).code == 75
    [part, *_] = sorted(workspace.output().glob(f"batch={int(route == 'shuffle')}/part-*.parquet"))
    DAMAGES[damage](part)
    again = icefloe("run", workspace.pipeline(checks=[LARGE]))
    assert (again.code, "those parts are written again" in again.err) == (0, True), again.err
    assert icefloe("verify", workspace.pipeline(checks=[LARGE])).code == 0


def test_a_part_with_other_rows_than_its_task_wrote_is_no_batch_to_check(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ChangeFiles.read_part

    def cut(*arguments: Any) -> Any:
        return (rows.slice(1) for rows in whole(*arguments))

    monkeypatch.setattr(ChangeFiles, "read_part", cut)
    done = icefloe("run", workspace.pipeline(checks=[LARGE]))
    assert (done.code, "batch 0 has 10 changes by its tasks, and 9 in" in done.sentence) == (65, True)


def test_a_batch_that_fails_can_be_given_up(workspace: Workspace) -> None:
    assert icefloe("run", workspace.pipeline()).code == 0
    workspace.append(30, value=4711.5)
    assert icefloe("run", workspace.pipeline(checks=[LARGE])).code == 65
    assert icefloe("abandon", workspace.pipeline(checks=[LARGE]), "--yes").code == 0
    workspace.delete(30)
    assert icefloe("run", workspace.pipeline(checks=[LARGE], changes="each")).code == 65
    assert icefloe("abandon", workspace.pipeline(checks=[LARGE]), "--yes").code == 0
    moved = icefloe("set-cursor", workspace.pipeline(checks=[LARGE]), "--snapshot-id", workspace.head(), "--yes")
    assert moved.code == 0
    workspace.append(31)
    assert icefloe("run", workspace.pipeline(checks=[LARGE])).code == 0


def test_no_task_makes_a_batch_visible_whose_checks_were_left_out(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody marked the task as success, or the DAG is older than the checks."""

    def skip(_: BatchChecks, __: BatchReference) -> tuple[()]:
        return ()

    with monkeypatch.context() as patched:
        patched.setattr(BatchChecks, "run", skip)
        done = icefloe("run", workspace.pipeline(checks=[LARGE]))
    assert (done.code, "check large of batch 0 of events has not passed as it is now" in done.err) == (75, True)
    assert "in Airflow clear check and its downstream tasks" in done.err
    assert not list(workspace.output().glob("batch=0/_manifest.json"))
    assert icefloe("run", workspace.pipeline(checks=[LARGE])).code == 0


def test_a_batch_that_readers_see_is_not_checked_again(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.deliver.commit_batch.report_of", None)
        assert icefloe("run", workspace.pipeline(checks=[LARGE])).code == 70
    assert list(workspace.output().glob("batch=0/_manifest.json"))
    assert icefloe("run", workspace.pipeline(checks=[LARGE | {"query": "FROM changes"}])).code == 0


def test_checks_see_what_the_sink_is_given(workspace: Workspace) -> None:
    columns = LARGE | {"query": "SELECT list(name) AS names FROM pragma_table_info('changes') HAVING true"}
    icefloe("run", workspace.pipeline(columns=["value"], identifier_columns=["id"], checks=[columns]))
    [found] = results(workspace, 0)
    names = ["_batch", "_change_type", "_change_ordinal", "_commit_snapshot_id", "_commit_timestamp", "value"]
    assert found["samples"] == [{"names": str(names)}]


def test_steps_that_are_left_out_are_not_checked(lab: Delivered) -> None:
    lab.append(1, 2)
    lab.update(1, value=4711.5)
    lab.append(21, 22)
    keys: dict[str, Any] = {"changes": "append_only", "on_removed_rows": "skip", "initial_load": "from_earliest"}
    assert lab.deliver(checks=[LARGE], **keys).code == 0
    assert reported(lab, 0)[0]["outcome"] == "passed"


def test_a_disk_that_is_full_as_a_query_is_tried_may_be_emptied(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise duckdb.IOException("IO Error: no room")

    monkeypatch.setattr("icefloe.batch.deliver.check_batch._Changes._found", full)
    done = icefloe("validate", workspace.pipeline(checks=[LARGE]))
    assert (done.code, "no room; free space there" in done.out) == (75, True)


def test_without_duckdb_a_pipeline_with_checks_says_what_to_install(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert icefloe("validate", workspace.pipeline()).code == 0
    done = icefloe("validate", workspace.pipeline(checks=[LARGE]))
    assert (done.code, "✗ checks     checks need the package duckdb" in done.out) == (65, True)
    assert "install icefloe[checks] wherever tasks run" in icefloe("run", workspace.pipeline(checks=[LARGE])).sentence


def test_nothing_imports_duckdb_for_a_pipeline_without_checks(workspace: Workspace) -> None:
    code = (
        "import sys; from icefloe.cli import main; code = main(sys.argv[1:]); sys.exit(code or 'duckdb' in sys.modules)"
    )
    assert python(["-c", code, "run", str(workspace.pipeline())]).code == 0


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT valeu FROM changes", 'Referenced column "valeu" not found'),
        ("SELECT * FROM change", "Table with name change does not exist"),
        ("SELCT 1", "syntax error"),
        ("SELECT sum(value) FROM changes WHERE sum(value) > 1", "WHERE clause cannot contain aggregates"),
        ("DELETE FROM changes", "write one SELECT"),
    ],
)
def test_validate_finds_a_query_that_does_not_fit_the_columns(workspace: Workspace, query: str, said: str) -> None:
    before = {path for path in workspace.files() if path.is_file()}
    good = LARGE | {"name": "good"}
    path = workspace.pipeline(checks=[good, LARGE | {"query": query}])
    done = icefloe("validate", path)
    [line] = [line for line in done.out.splitlines() if line.startswith("✗")]
    assert done.code == 65
    assert f"{path}:" in line
    assert "check large is no query of changes: " in line
    assert said in line
    assert "✓ checks     good" in icefloe("validate", workspace.pipeline(checks=[good])).out
    assert {path for path in workspace.files() if path.is_file()} == before
