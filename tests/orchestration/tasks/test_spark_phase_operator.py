import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

import icefloe
from icefloe.batch.context.job_error import JobError
from icefloe.engines.spark.application import SPARK_JOBS, SilentApplicationError
from icefloe.errors import TransientError
from icefloe.flow import Phase, Route
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.redacted_log import RedactedLog
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from support.missing import require_package
from support.pipelines.pipeline_files import pipeline_from
from support.pipelines.workshop import Workshop
from support.sinks.document_folder import DocumentFolder, registered

SECRET = "hunter2hunter2"
PLAN_URI = "file:///var/icefloe/shuffle/flights/7/plan.json"
PREPARED = {"route": "insert_only", "plan_uri": PLAN_URI, "batch_number": 7, "backfill_id": None}
CONTEXT = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": PREPARED}[task_ids])}


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "login": "key", "password": SECRET}))


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The call of spark-submit: its command and environment."""
    calls: list[dict[str, Any]] = []

    def submit(self: SparkSubmitHook, application: str, *, env: dict[str, str]) -> None:
        command = self._build_spark_submit_command(application)
        # While the job runs: the folder of both is temporary.
        files = [Path(command[place + 1]) for place, each in enumerate(command) if each == "--py-files"]
        linked = Path(env.get("PYTHONPATH", "").partition(":")[0]) / "icefloe"
        zipped = [path.name for path in files if path.is_file()]
        calls.append({"command": command, "env": env, "zipped": zipped, "linked": linked.resolve()})

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    return calls


def operator(folder: Path, **keys: Any) -> SparkPhaseOperator:
    made = SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=pipeline_from(folder, **keys))
    made.application_args = [PLAN_URI]
    return made


def test_a_task_of_another_route_starts_no_job(tmp_path: Path, submitted: list[dict[str, Any]]) -> None:
    other = {**PREPARED, "route": Route.SHUFFLE.value}
    with pytest.raises(AirflowSkipException, match="takes the route shuffle"):
        operator(tmp_path).execute({"ti": SimpleNamespace(xcom_pull=lambda **_: other)})
    assert submitted == []


def test_a_job_on_this_machine_gets_the_plans_uri_and_the_library_where_it_is(
    tmp_path: Path, submitted: list[dict[str, Any]]
) -> None:
    operator(tmp_path).execute(CONTEXT)
    [call] = submitted
    assert call["command"][-2:] == [str(SPARK_JOBS / "insert_only.py"), PLAN_URI]
    assert call["command"][1:3] == ["--master", "local[2]"]
    assert (call["zipped"], call["linked"]) == ([], Path(icefloe.__file__).resolve().parent)


def test_a_job_on_a_cluster_gets_the_library_in_a_zip(
    tmp_path: Path, submitted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://host", "port": 7077}')
    operator(tmp_path, storage_is_shared=True).execute(CONTEXT)
    [[zipped]] = [call["zipped"] for call in submitted]
    assert zipped.startswith("icefloe-")
    assert zipped.endswith(".zip")


def test_secrets_are_in_the_environment_and_nowhere_else(tmp_path: Path, submitted: list[dict[str, Any]]) -> None:
    task = operator(tmp_path, storage_conn_id="lake")
    task.execute(CONTEXT)
    [call] = submitted
    assert SECRET in call["env"]["ICEFLOE_CREDENTIALS"]
    assert SECRET not in " ".join(call["command"])
    assert SECRET not in os.environ.get("ICEFLOE_CREDENTIALS", "")
    assert SECRET not in repr([getattr(task, field) for field in SparkPhaseOperator.template_fields])


def test_only_the_plans_uri_is_rendered() -> None:
    assert SparkPhaseOperator.template_fields == ("application_args",)


def test_the_plans_uri_comes_from_the_plan_task(tmp_path: Path) -> None:
    task = SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=pipeline_from(tmp_path))

    task.render_template_fields(CONTEXT)
    assert task.application_args == [PLAN_URI]


@pytest.mark.parametrize("value", [None, "spark://local[2]", "spark://master:7077?deploy-mode=cluster"])
def test_a_connection_that_would_mislead_airflow_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: list[dict[str, Any]], value: str | None
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    if value:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", value)
    with pytest.raises(AirflowFailException, match="insert_only: the Spark connection 'spark_default'"):
        operator(tmp_path).execute(CONTEXT)
    assert submitted == []


def test_a_disk_of_one_machine_is_refused_for_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: list[dict[str, Any]]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    with pytest.raises(AirflowFailException, match="a disk of one machine"):
        operator(tmp_path).execute(CONTEXT)
    operator(tmp_path, storage_is_shared=True).execute(CONTEXT)
    assert len(submitted) == 1


def fail_with(monkeypatch: pytest.MonkeyPatch, error: JobError | None) -> None:
    def submit(self: SparkSubmitHook, application: str, *, env: dict[str, str]) -> None:
        raise AirflowException("exit code 1")

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setattr(use_cases, "read_job_error", lambda *_: error)


def test_an_error_of_the_job_that_stays_fails_the_task_with_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, JobError(family="terminal", sentence="a column is gone", facts={}))
    with pytest.raises(AirflowFailException, match="insert_only: a column is gone"):
        operator(tmp_path).execute(CONTEXT)


def test_an_error_of_the_job_that_passes_is_left_to_retries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, JobError(family="transient", sentence="the store timed out", facts={}))
    with pytest.raises(TransientError, match="the store timed out"):
        operator(tmp_path).execute(CONTEXT)


def test_a_job_that_died_without_a_word_says_its_last_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["py4j.protocol.Py4JNetworkError: Answer from Java side is empty", f"the key is {SECRET}"]
    lines += [
        "All masters are unresponsive! Giving up.",
        "26/11/26 06:12:00 INFO ShutdownHookManager: bye",
        "\tat a.B(C)",
    ]
    fake = tmp_path / "bin" / "spark-submit"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\nexit 137\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("sys.executable", str(fake.parent / "python"))
    monkeypatch.setattr(use_cases, "read_job_error", lambda *_: None)
    with pytest.raises(
        SilentApplicationError,
        match=r"^spark-submit of insert_only ended with exit code 137 and left no .* it last said: All masters are",
    ) as raised:
        operator(tmp_path, storage_conn_id="lake").execute(CONTEXT)
    assert raised.value.last_lines[0] == lines[0]
    assert SECRET not in "".join(raised.value.last_lines)


def test_a_hook_that_keeps_no_lines_is_no_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, None)
    with pytest.raises(SilentApplicationError, match="it last said: nothing"):
        operator(tmp_path).execute(CONTEXT)


def test_a_task_that_is_ended_before_its_job_begins_submits_none(
    tmp_path: Path, submitted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operator(tmp_path)
    credentials = use_cases.driver_environment_of

    def end_meanwhile(*arguments: Any) -> Any:
        task.on_kill()
        return credentials(*arguments)

    monkeypatch.setattr(use_cases, "driver_environment_of", end_meanwhile)
    with pytest.raises(TransientError, match="ended from outside before its Spark job began"):
        task.execute(CONTEXT)
    assert submitted == []


def test_each_attempt_has_a_name_of_its_own(tmp_path: Path, submitted: list[dict[str, Any]]) -> None:
    operator(tmp_path).execute(CONTEXT)
    operator(tmp_path).execute(CONTEXT)
    assert submitted[0]["env"]["ICEFLOE_ATTEMPT"] != submitted[1]["env"]["ICEFLOE_ATTEMPT"]


def test_the_local_engine_runs_the_phase_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: list[dict[str, Any]]
) -> None:
    ran: list[tuple[str, Any]] = []
    monkeypatch.setattr(use_cases, "run_phase_here", lambda _, phase, prepared: ran.append((phase, prepared)))
    task = operator(tmp_path, engine="local")
    task.execute(CONTEXT)
    task.on_kill()
    assert (ran, submitted) == ([("insert_only", PREPARED)], [])


def test_a_spark_submit_next_to_the_interpreter_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "spark-submit"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nenv > {tmp_path}/env; echo "$@" > {tmp_path}/arguments\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("sys.executable", str(fake.parent / "python"))
    operator(tmp_path, storage_conn_id="lake").execute(CONTEXT)
    assert SECRET in (tmp_path / "env").read_text()
    assert SECRET not in (tmp_path / "arguments").read_text()


def test_a_missing_spark_submit_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = shutil.which("java")
    assert java is not None
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", str(Path(java).resolve().parents[1])))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AirflowFailException, match="spark-submit is found neither next to"):
        operator(tmp_path).execute(CONTEXT)


def test_a_machine_that_does_not_start_spark_submit_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(self: SparkSubmitHook, application: str, *, env: dict[str, str]) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    with pytest.raises(TransientError, match=r"^spark-submit of insert_only could not be started .*Cannot allocate"):
        operator(tmp_path).execute(CONTEXT)


def test_a_missing_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AirflowFailException, match="needs Java, but JAVA_HOME is not set and the path has none"):
        operator(tmp_path).execute(CONTEXT)


def test_every_phase_has_its_application() -> None:
    for phase in ("insert_only", "shuffle_write", "shuffle_read"):
        text = (SPARK_JOBS / f"{phase}.py").read_text()
        assert len(text.splitlines()) <= 25


@pytest.mark.spark
def test_a_real_job_reports_why_it_failed(tmp_path: Path) -> None:
    task = operator(tmp_path)
    plan_uri = f"file://{tmp_path}/shuffle/7/plan.json"
    task.application_args = [plan_uri]
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": {**PREPARED, "plan_uri": plan_uri}}[task_ids])}
    with pytest.raises(AirflowFailException, match=r"insert_only: there is no plan at file://.*/shuffle/7/plan\.json"):
        task.execute(context)


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[tuple[Workshop, str]]:
    """A batch that is staged, and to be delivered to a folder of documents: its pipeline, and the URL of its plan."""
    with registered():
        workshop = Workshop.create(tmp_path).set(sink={"type": "documents", "folder": f"{tmp_path}/documents"})
        workshop.append([1, 2])
        batch = workshop.open()
        batch.run(Phase.INSERT_ONLY)
        yield workshop, batch.plan_url


def delivering(
    staged: tuple[Workshop, str], phase: str = "deliver", *, engine: str = "spark"
) -> tuple[SparkPhaseOperator, dict[str, Any]]:
    """A task of the batch, and its context."""
    workshop, plan_url = staged
    prepared = {**PREPARED, "plan_uri": plan_url}
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": prepared}[task_ids])}
    task = SparkPhaseOperator(task_id=phase, phase=phase, pipeline=workshop.set(engine=engine).session().pipeline)
    task.application_args = [plan_url]
    return task, context


def test_a_small_batch_is_delivered_without_spark_submit(
    staged: tuple[Workshop, str], submitted: list[dict[str, Any]]
) -> None:
    task, context = delivering(staged)
    task.execute(context)
    assert submitted == []
    assert sorted(DocumentFolder(staged[0].folder / "documents").documents()) == ["1", "2"]


def test_a_large_batch_is_delivered_by_spark(
    staged: tuple[Workshop, str], submitted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, context = delivering(staged)
    monkeypatch.setattr("icefloe.engines.phase_runner.SMALL_BYTES", 1)
    task.execute(context)
    assert [call["command"][-2:] for call in submitted] == [[str(SPARK_JOBS / "deliver.py"), staged[1]]]


@pytest.mark.parametrize(("small_bytes", "jobs"), [(64 * 2**20, 0), (1, 1)])
def test_the_engine_auto_runs_a_phase_of_a_small_batch_without_spark_submit(
    staged: tuple[Workshop, str], submitted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch,
    small_bytes: int, jobs: int,
) -> None:  # fmt: skip
    task, context = delivering(staged, "insert_only", engine="auto")
    monkeypatch.setattr("icefloe.engines.phase_runner.SMALL_BYTES", small_bytes)
    monkeypatch.setattr("icefloe.batch.run.tasks_in_process.run_phase", lambda phase, *_, **__: ran.append(phase))
    ran: list[Phase] = []
    task.execute(context)
    assert (len(submitted), ran) == (jobs, [Phase.INSERT_ONLY] * (1 - jobs))


def test_openlineage_gets_the_sink_of_a_staged_batch_when_it_was_delivered(staged: tuple[Workshop, str]) -> None:
    require_package("airflow.providers.openlineage", "apache-airflow-providers-openlineage")
    outputs = []
    for phase in ("insert_only", "deliver"):
        task, context = delivering(staged, phase)
        if phase == "deliver":
            task.execute(context)
        found = task.get_openlineage_facets_on_complete(context["ti"]).outputs
        outputs.append([(each.namespace, each.name) for each in found])
    assert outputs == [[], [("file", f"{staged[0].folder}/documents")]]


@pytest.mark.parametrize(("phase", "is_delivering"), [("insert_only", True), ("shuffle_write", False)])
def test_openlineage_gets_the_table_and_the_sink(tmp_path: Path, phase: str, is_delivering: bool) -> None:
    require_package("airflow.providers.openlineage", "apache-airflow-providers-openlineage")
    workshop = Workshop.create(tmp_path)
    workshop.append([1])
    task = SparkPhaseOperator(task_id=phase, phase=phase, pipeline=workshop.session().pipeline)
    prepared = {**PREPARED, "plan_uri": workshop.open().plan_url}
    lineage = task.get_openlineage_facets_on_complete(
        SimpleNamespace(xcom_pull=lambda task_ids: {"plan": prepared}[task_ids])
    )
    [table] = lineage.inputs
    assert (table.namespace, table.name) == ("file", workshop.table.location().removeprefix("file://"))
    assert [(each.namespace, each.name) for each in lineage.outputs] == (
        [("file", f"{tmp_path}/changes")] if is_delivering else []
    )


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_phase_whose_plan_was_marked_as_success_says_what_to_clear(
    tmp_path: Path, submitted: list[dict[str, Any]], engine: str
) -> None:
    with DAG("flights", schedule=None):  # a DAG refuses to render undefined values
        task = SparkPhaseOperator(
            task_id="insert_only", phase="insert_only", pipeline=pipeline_from(tmp_path, engine=engine)
        )
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda **_: None)}
    task.render_template_fields(context)
    with pytest.raises(AirflowFailException, match=r"^insert_only: plan returned no batch: .*; clear plan$"):
        task.execute(context)
    assert submitted == []


class Lines:
    """The log of a hook, as Airflow gives it to one."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def info(self, event: object, *arguments: object, **_: object) -> None:
        self.written.append(str(event) % arguments if arguments else str(event))

    debug = warning = error = exception = info


def test_secrets_that_a_job_prints_are_not_in_the_tasks_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "spark-submit"
    fake.parent.mkdir()
    fake.write_text(
        '#!/bin/sh\necho "options $ICEFLOE_CREDENTIALS"\necho "100% s3.session-token=vended-by-the-catalog"\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("sys.executable", str(fake.parent / "python"))
    log = Lines()
    monkeypatch.setattr(SparkSubmitHook, "_log", log)
    masked: list[object] = []
    monkeypatch.setattr("icefloe.orchestration.tasks.redacted_log.mask_secret", masked.append)
    operator(tmp_path, storage_conn_id="lake").execute(CONTEXT)
    text = "\n".join(log.written)
    assert "options " in text
    assert "100% s3.session-token=***" in text
    assert SECRET not in text
    assert "vended-by-the-catalog" not in text
    assert SECRET in masked


def test_a_line_without_arguments_may_have_any_percent_sign() -> None:
    import structlog
    from structlog.testing import LogCapture

    captured = LogCapture()
    kind = structlog.make_filtering_bound_logger(0)
    log = RedactedLog(structlog.wrap_logger(structlog.PrintLogger(), processors=[captured], wrapper_class=kind))
    log.info("5%s done")
    log.info("driver %s", "token=abcdefgh")
    log.info("odd %d", "x")
    assert [each["event"] for each in captured.entries] == ["5%s done", "driver token=***", "odd %d ('x',)"]
