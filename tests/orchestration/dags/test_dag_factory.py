import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.sdk._shared.timezones.timezone import _Timezone, parse_timezone
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization

from icefloe.orchestration.dags.dag_factory import make_dags
from support.pipelines.pipeline_files import write_pipeline

BATCH_TASKS = {
    "plan", "route", "insert_only", "shuffle_write", "coalesce", "shuffle_read", "nothing_to_do", "commit", "cleanup",
}  # fmt: skip


@pytest.fixture
def dags(tmp_path: Path) -> dict[str, DAG]:
    write_pipeline(tmp_path)
    return make_dags(tmp_path)


def edges(dag: DAG) -> set[tuple[str, str]]:
    return {(task.task_id, below) for task in dag.tasks for below in task.downstream_task_ids}


def test_a_pipeline_file_makes_a_dag_that_follows_and_one_that_backfills(dags: dict[str, DAG]) -> None:
    assert set(dags) == {"flights", "flights__backfill"}
    assert set(dags["flights"].task_ids) == BATCH_TASKS | {"wait_for_snapshot"}
    assert set(dags["flights__backfill"].task_ids) == BATCH_TASKS


def test_the_routes_meet_at_commit(dags: dict[str, DAG]) -> None:
    assert edges(dags["flights"]) == {
        ("wait_for_snapshot", "plan"), ("plan", "route"),
        ("route", "insert_only"), ("route", "shuffle_write"), ("route", "nothing_to_do"),
        ("shuffle_write", "coalesce"), ("coalesce", "shuffle_read"),
        ("insert_only", "commit"), ("shuffle_read", "commit"), ("nothing_to_do", "commit"), ("commit", "cleanup"),
    }  # fmt: skip
    assert dags["flights"].get_task("commit").trigger_rule == "none_failed_min_one_success"


def test_all_routes_of_a_pipeline_that_delivers_lead_through_deliver_and_its_backfill_stays_staged(
    tmp_path: Path,
) -> None:
    write_pipeline(tmp_path, sink={"type": "opensearch", "index": "flights"})
    following, backfill = make_dags(tmp_path).values()
    assert {edge for edge in edges(following) if {"deliver", "commit"} & set(edge)} == {
        ("insert_only", "deliver"), ("shuffle_read", "deliver"), ("nothing_to_do", "deliver"), ("deliver", "commit"),
        ("commit", "cleanup"),
    }  # fmt: skip
    assert following.get_task("deliver").trigger_rule == "none_failed_min_one_success"
    assert set(backfill.task_ids) == BATCH_TASKS


def test_a_cron_schedule_counts_in_the_default_timezone_of_airflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline(tmp_path, schedule="0 6 * * *")
    assert zone_of_schedule(tmp_path) == "UTC"
    monkeypatch.setattr(_Timezone, "initialized_timezone", parse_timezone("Europe/Berlin"))
    assert zone_of_schedule(tmp_path) == "Europe/Berlin"


def zone_of_schedule(folder: Path) -> str:
    return str(make_dags(folder)["flights"].timezone.name)


def test_both_dags_run_once_at_a_time_and_are_not_started_by_date(dags: dict[str, DAG]) -> None:
    following, backfill = dags["flights"], dags["flights__backfill"]
    for dag in (following, backfill):
        assert (dag.max_active_runs, dag.catchup) == (1, False)
        assert "backfill" not in {run_type.value for run_type in dag.allowed_run_types}
        assert all(task.doc_md for task in dag.tasks)
    assert (following.max_consecutive_failed_dag_runs, backfill.max_consecutive_failed_dag_runs) == (3, 0)
    assert backfill.is_paused_upon_creation is False, "a backfill that is started never waits in a new DAG"
    assert following.is_paused_upon_creation is None, "following a table is the user's to begin"
    assert following.description == "Row-level changes of nyc.flights, batch by batch"
    assert all(word in (following.doc_md or "") for word in ("nyc.flights", "/changes", "@continuous", "flights.yaml"))
    assert (backfill.tags, backfill.schedule) == ({"icefloe", "backfill"}, None)
    assert set(backfill.params) == {"after_snapshot_id", "up_to_snapshot_id", "after_timestamp", "up_to_timestamp"}


def test_the_result_of_a_task_is_one_mapping(dags: dict[str, DAG]) -> None:
    # Airflow's page takes a string of digits for a number and rounds it, unless it stands inside a mapping.
    for task_id in ("plan", "coalesce", "commit"):
        assert dags["flights"].get_task(task_id).multiple_outputs is False


@pytest.mark.parametrize(
    ("schedule", "waits"), [("@continuous", True), ("0 * * * *", False), ({"asset": "orders"}, False), (None, False)]
)
def test_only_a_continuous_schedule_waits(tmp_path: Path, schedule: object, waits: bool) -> None:
    write_pipeline(tmp_path, schedule=schedule)
    assert make_dags(tmp_path)["flights"].get_task("wait_for_snapshot").waits is waits


def test_default_args_reach_every_task_and_those_on_spark_may_have_a_pool_of_their_own(tmp_path: Path) -> None:
    write_pipeline(tmp_path, default_args={"retries": 7, "pool": "lake", "retry_delay": "90s"}, spark={"pool": "heavy"})
    for dag in make_dags(tmp_path).values():
        assert {(task.retries, task.retry_delay.total_seconds()) for task in dag.tasks} == {(7, 90)}
        on_spark = {task.task_id for task in dag.tasks if task.pool == "heavy"}
        assert on_spark == {"insert_only", "shuffle_write", "shuffle_read"}
        assert {task.pool for task in dag.tasks if task.task_id not in on_spark} == {"lake"}


def test_a_broken_file_is_one_dag_that_says_so_and_the_others_live(tmp_path: Path) -> None:
    write_pipeline(tmp_path, "good")
    write_pipeline(tmp_path, "bad one", tabel="nyc.flights")
    dags = make_dags(tmp_path)
    assert set(dags) == {"good", "good__backfill", "bad_one"}
    broken = dags["bad_one"]
    assert "broken" in broken.tags
    assert "tabel" in broken.doc_md
    assert f"icefloe validate {tmp_path / 'bad one.yaml'}" in broken.doc_md
    assert broken.description == "bad one.yaml makes no DAG until it is corrected"
    with pytest.raises(AirflowFailException, match=r"bad one\.yaml.*tabel"):
        broken.tasks[0].python_callable()


def test_broken_files_take_no_id_from_others_whatever_becomes_of_their_names(tmp_path: Path) -> None:
    write_pipeline(tmp_path, "my_flights")
    for stem in ("my flights", "my-flights", "my\u00e4flights", "my+flights"):
        write_pipeline(tmp_path, stem, tabel="nyc.flights")
    dags = make_dags(tmp_path)
    good = {"my_flights", "my_flights__backfill"}
    assert set(dags) == {*good, "my-flights", "my_flights__file", "my_flights__file2", "my_flights__file3"}
    assert {dag_id for dag_id in dags if "broken" not in dags[dag_id].tags} == good


def test_a_route_whose_plan_was_marked_as_success_says_what_to_clear(tmp_path: Path) -> None:
    write_pipeline(tmp_path, "flights")
    route = make_dags(tmp_path)["flights"].get_task("route")
    assert route.python_callable({"route": "insert_only"}) == "insert_only"
    with pytest.raises(AirflowFailException, match=r"^route: plan returned no batch: .*; clear plan$"):
        route.python_callable(None)


@pytest.mark.parametrize("text", ["a: [", "", "- 1", "version: 1"])
def test_any_text_makes_a_dag(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert set(make_dags(tmp_path)) == {"bad"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"name": "flights__backfill"}, r"flights\_\_backfill"),
        ({"schedule": "every noon"}, "every noon"),
        ({"sink": {"type": "files", "path": "s3://lake/x", "format": "orc"}}, "must be parquet or jsonl"),
    ],
)
def test_a_file_that_airflow_cannot_have_breaks_itself_only(tmp_path: Path, keys: dict[str, object], said: str) -> None:
    write_pipeline(tmp_path, "a", **keys)
    write_pipeline(tmp_path, "b")
    dags = make_dags(tmp_path)
    assert set(dags) == {"a", "b", "b__backfill"}
    assert said in (dags["a"].doc_md or "")


def test_a_name_that_several_files_have_breaks_them_all_and_none_gets_its_dag(tmp_path: Path) -> None:
    for stem in ("flights", "flights-copy", "a"):
        write_pipeline(tmp_path, stem, name="flights")
    write_pipeline(tmp_path, "other")
    dags = make_dags(tmp_path)
    assert set(dags) == {"a", "flights-copy", "flights__file", "other", "other__backfill"}
    for stem, dag_id in (("a", "a"), ("flights", "flights__file"), ("flights-copy", "flights-copy")):
        with pytest.raises(AirflowFailException, match="the name 'flights' is taken by another") as told:
            dags[dag_id].tasks[0].python_callable()
        assert f"{tmp_path / stem}.yaml: the name" in str(told.value)
        assert all(f"{tmp_path / each}.yaml" in str(told.value) for each in ("a", "flights", "flights-copy"))


def test_a_variable_that_is_missing_here_reddens_no_dag(tmp_path: Path) -> None:
    write_pipeline(tmp_path, storage="s3://${BUCKET_THAT_IS_NOWHERE_SET}/icefloe", engine="${ENGINE_NOWHERE_SET}")
    assert set(make_dags(tmp_path)) == {"flights", "flights__backfill"}


PARSING = """
import json, sys
from pathlib import Path
from icefloe.orchestration.dags.dag_factory import make_dags
heavy = {"pyiceberg", "pyarrow", "pyspark", "pandas", "obstore", "duckdb"} & set(sys.modules)
from airflow.serialization.serialized_objects import DagSerialization
dags = [DagSerialization.serialize_dag(dag) for dag in make_dags(Path(sys.argv[1])).values()]
print(json.dumps({"heavy": sorted(heavy), "dags": json.dumps(dags, sort_keys=True)}))
"""


@pytest.mark.slow
def test_parsing_again_makes_no_new_version_and_the_dag_file_reaches_nothing_heavy(tmp_path: Path) -> None:
    write_pipeline(tmp_path)
    write_pipeline(tmp_path, "bad", nonsense=1)
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", PARSING, str(tmp_path)],
                env={**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
                capture_output=True, text=True, check=True,
            ).stdout.splitlines()[-1]
        )
        for seed in ("1", "2")
    )  # fmt: skip
    assert first["heavy"] == []
    assert len(json.loads(first["dags"])) == 3
    assert first["dags"] == second["dags"]


def test_a_serialized_dag_holds_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "aws", "login": "key", "password": "hunter2"}')
    write_pipeline(tmp_path, storage_conn_id="lake")
    for dag in make_dags(tmp_path).values():
        assert "hunter2" not in json.dumps(DagSerialization.serialize_dag(dag))
