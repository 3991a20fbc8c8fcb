"""The DAG of upkeep: a task for each pipeline file, none of which keeps another from its work."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

import airflow_environment
from icefloe.errors import TerminalError, TransientError
from icefloe.orchestration.dags.upkeep_dag import upkeep_dag
from icefloe.orchestration.tasks import calls
from support.pipelines.lake import Lake, TaskStates
from support.pipelines.leftovers import left_in_shuffle
from support.sinks.document_folder import DocumentFolder
from support.sinks.registered import registered_sinks

pytestmark = pytest.mark.airflow
RunDag = Callable[..., TaskStates]


@pytest.fixture
def states(airflow_database: None) -> Callable[[], dict[tuple[str, str], str]]:
    """Runs the DAG of upkeep; the states of its tasks, by task and what Airflow shows as its map index."""
    from airflow.dag_processing.dagbag import DagBag

    def run() -> dict[tuple[str, str], str]:
        bag = DagBag(airflow_environment.DAGS, bundle_name="dags-folder")
        assert bag.import_errors == {}
        done = bag.dags["icefloe_upkeep"].test()
        return {
            (each.task_id, str(each.rendered_map_index or each.map_index)): str(each.state)
            for each in done.get_task_instances()
        }

    return run


def killed_before_cleanup(lake: Lake, run_dag: RunDag, name: str, **keys: Any) -> list[Path]:
    """A pipeline whose first batch is committed, and the files that its cleanup did not delete."""
    lake.write_pipeline(name, **{"sink": {"type": "files", "path": f"file://{lake.folder}/changes/{name}"}, **keys})
    with mock.patch.object(calls, "clean_up_batch"):
        assert run_dag(name).by_task["commit"] == "success"
    return left_in_shuffle(lake.folder / "storage")


def test_each_pipeline_is_swept_and_a_bad_one_is_one_red_task(
    lake: Lake, run_dag: RunDag, states: Callable[[], dict[tuple[str, str], str]]
) -> None:
    lake.append((1, "AA"))
    left = killed_before_cleanup(lake, run_dag, "flights")
    assert left
    lake.write_pipeline("without_connection", storage_conn_id="nobody")
    (airflow_environment.PIPELINES / "broken.yaml").write_text("version: [")
    found = states()
    assert found[("sweep", "flights.yaml")] == "success"
    assert left_in_shuffle(lake.folder / "storage") == []
    assert found[("purge", "flights.yaml")] == "skipped"
    assert {found[("sweep", f"{name}.yaml")] for name in ("without_connection", "broken")} == {"failed"}
    # A purge that has nothing to do asks for no connection.
    assert [found[("purge", f"{name}.yaml")] for name in ("without_connection", "broken")] == ["skipped", "failed"]


def test_a_folder_without_pipelines_is_a_run_without_work(
    airflow_database: None, states: Callable[[], dict[tuple[str, str], str]]
) -> None:
    assert states() == {("sweep", "-1"): "skipped", ("purge", "-1"): "skipped"}


def test_a_sweep_looks_at_the_files_of_its_own_pipeline(lake: Lake, run_dag: RunDag) -> None:
    lake.append((1, "AA"))
    killed_before_cleanup(lake, run_dag, "flights")
    both = killed_before_cleanup(lake, run_dag, "others")
    assert {path.relative_to(lake.folder).parts[2] for path in both} == {"flights", "others"}
    assert calls.sweep_pipeline(airflow_environment.PIPELINES / "others.yaml") > 0
    assert {path.relative_to(lake.folder).parts[2] for path in left_in_shuffle(lake.folder / "storage")} == {"flights"}


def test_a_storage_is_opened_with_the_connection_of_the_pipeline(
    lake: Lake, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "aws", "login": "ada", "password": "of the storage"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    lake.write_pipeline("flights", storage_conn_id="lake")
    with mock.patch.object(calls, "survey_storage") as survey:
        survey.return_value.delete.return_value = (0, ())
        calls.sweep_pipeline(airflow_environment.PIPELINES / "flights.yaml")
    given = survey.call_args
    assert given.args == (f"file://{lake.folder}/storage",)
    assert given.kwargs["pipeline"] == "flights"
    assert given.kwargs["credentials"].storage_options["secret_access_key"] == "of the storage"


class Marked(DocumentFolder):
    keeps_deletions = True

    def purge(self, *, before: datetime, dry_run: bool = False) -> int:
        assert timedelta(days=29) < datetime.now(UTC) - before < timedelta(days=31)
        assert not dry_run
        return 7


def test_marks_go_at_the_age_that_the_sink_names(lake: Lake, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_OWNER", "here")
    path, folder = airflow_environment.PIPELINES / "flights.yaml", lake.folder / "documents"
    lake.append((1, "AA"))
    with (
        registered_sinks(documents=lambda options: Marked(Path(options["folder"]))),
        mock.patch.object(Marked, "purge_after", 30 * 86_400.0),
    ):
        lake.write_pipeline("flights", sink={"type": "documents", "folder": str(folder), "purge_after": "30d"})
        with pytest.raises(AirflowSkipException, match="no marks of deleted rows yet"):
            calls.purge_pipeline(path)
        assert run_dag("flights").by_task["commit"] == "success"
        assert calls.purge_pipeline(path) == 7
        monkeypatch.setenv("ICEFLOE_OWNER", "elsewhere")
        with pytest.raises(TerminalError, match="belongs to owner here, "):
            calls.purge_pipeline(path)
        monkeypatch.setenv("ICEFLOE_OWNER", "here")
        (folder / "owner.json").write_text('"the owner who took it over"')
        with pytest.raises(TerminalError, match="is another's"):
            calls.purge_pipeline(path)


def test_a_pipeline_without_an_age_asks_nobody(lake: Lake) -> None:
    lake.write_pipeline("flights", sink={"type": "documents", "folder": str(lake.folder)})
    with (
        registered_sinks(documents=lambda _: pytest.fail("it was opened")),
        mock.patch.object(calls, "resolve_credentials", side_effect=TransientError("the API server is away")),
        pytest.raises(AirflowSkipException, match="has no purge_after"),
    ):
        calls.purge_pipeline(airflow_environment.PIPELINES / "flights.yaml")


def made(folder: Path, schedule: str | None = None) -> DAG:
    return upkeep_dag(folder, schedule=schedule)


def test_the_dag_is_off_until_it_has_a_schedule_and_runs_once_at_a_time(tmp_path: Path) -> None:
    off, on = made(tmp_path), made(tmp_path, "@daily")
    assert (off.schedule, on.schedule, on.is_paused_upon_creation) == (None, "@daily", False)
    assert (on.max_active_runs, on.catchup) == (1, False)
    text = (airflow_environment.REPOSITORY / "dags" / "icefloe_upkeep.py").read_text()
    assert text.count("schedule=None,") == 1


def test_parsing_opens_no_pipeline_file(tmp_path: Path) -> None:
    (tmp_path / "flights.yaml").mkdir()
    (tmp_path / "trains.yaml").symlink_to(tmp_path / "secret")
    (tmp_path / "planes.yaml").touch(mode=0o000)
    with mock.patch("icefloe.pipeline.model.Pipeline.load") as load:
        dag = made(tmp_path)
    load.assert_not_called()
    assert dag.get_task("sweep").op_kwargs_expand_input.value == {"file": ["planes.yaml"]}
