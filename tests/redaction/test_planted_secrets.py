"""Secrets planted in wrong configurations are found in nothing that leaves the process."""

import asyncio
import io
import json
import logging
import socket
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from datetime import timedelta as duration
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.batch.context.job_error import save_job_error
from icefloe.batch.context.references import BatchReference
from icefloe.batch.credentials import Credentials
from icefloe.batch.run_settings import RunSettings
from icefloe.cli import main
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import Phase
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks import failures
from icefloe.orchestration.tasks.failures import clear_failures
from icefloe.orchestration.tasks.pipeline_facts import pipeline_to_mapping
from icefloe.orchestration.tasks.snapshot_sensor import TableSnapshotSensor
from icefloe.orchestration.tasks.snapshot_trigger import PipelineSnapshotTrigger
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import load_pipeline
from icefloe.storage import clients
from redaction.echo_server import echo_server
from redaction.traces import traces_of
from redaction.wrong_configurations import CASES, SECRET, Case
from support.pipelines.workspace import Workspace, icefloe_process, properties_of

pytestmark = pytest.mark.slow

COMMANDS = (["validate"], ["validate", "--json"], ["run"], ["run", "--verbose"], ["plan"], ["status"])


@dataclass
class Outlets:
    """Everything that left the process, by the place where it left."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, place: str, text: str) -> None:
        self.texts[place] = self.texts.get(place, "") + text

    def giving_away(self, case: Case) -> dict[str, list[str]]:
        found = {place: [t for s in case.secrets for t in traces_of(s, text)] for place, text in self.texts.items()}
        return {place: traces for place, traces in found.items() if traces}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with echo_server() as url:
        yield url


@pytest.fixture(scope="module")
def closed_host() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "6")
    home, lake = tmp_path / "home", tmp_path / "lake"
    home.mkdir()
    lake.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    backoff = {"init_backoff": duration(milliseconds=1), "max_backoff": duration(milliseconds=2), "base": 2}
    monkeypatch.setattr(
        clients, "_RETRIES", {"max_retries": 1, "retry_timeout": duration(seconds=2), "backoff": backoff}
    )
    made = Workspace.create(lake)
    made.append(1, 2, 3)
    return made


def filled(value: Any, server: str, closed_host: str) -> Any:
    if isinstance(value, Mapping):
        return {key: filled(below, server, closed_host) for key, below in value.items()}
    if not isinstance(value, str):
        return value
    texts = {"{server}": server, "{closed}": f"http://{closed_host}", "{closed_host}": closed_host}
    for hole, text in texts.items():
        value = value.replace(hole, text)
    return value


def pipeline_of(case: Case, workspace: Workspace) -> Path:
    keys: dict[str, Any] = {"catalog": "lab", "poll_interval": "1ms"}
    if case.storage is not None:
        keys |= {"storage": case.url, "storage_conn_id": "planted_store"}
    return workspace.pipeline(**keys)


def credentials_of(case: Case, workspace: Workspace, server: str, closed_host: str) -> dict[str, Any]:
    catalog = properties_of(workspace.folder) if case.catalog is None else case.catalog
    return {
        "catalog_properties": filled(catalog, server, closed_host),
        "storage_options": filled(case.storage or {}, server, closed_host),
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_command_gives_a_secret_away(
    case: Case, workspace: Workspace, server: str, closed_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlets = Outlets()
    path = pipeline_of(case, workspace)
    monkeypatch.setenv("ICEFLOE_CREDENTIALS", json.dumps(credentials_of(case, workspace, server, closed_host)))
    for name, value in case.environ.items():
        monkeypatch.setenv(name, value)
    codes = {}
    for command in COMMANDS:
        codes[" ".join(command)] = run(outlets, command[0], str(path), *command[1:])
    add_files(outlets, workspace, path)
    assert outlets.giving_away(case) == {}
    assert set(codes.values()) <= {65, 75}, (codes, outlets.texts)
    assert len(outlets.texts["plan stderr"].splitlines()) == 1


FLAT = [case for case in CASES if case.catalog and not any(isinstance(v, Mapping) for v in case.catalog.values())]


@pytest.mark.parametrize("case", FLAT, ids=str)
def test_no_command_gives_away_the_values_of_pyicebergs_configuration(
    case: Case, workspace: Workspace, server: str, closed_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlets = Outlets()
    path = pipeline_of(case, workspace)
    for key, value in filled(case.catalog, server, closed_host).items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAB__{key.replace('-', '_').replace('.', '__').upper()}", value)
    codes = [run(outlets, command, str(path)) for command in ("validate", "run")]
    add_files(outlets, workspace, path)
    assert outlets.giving_away(case) == {}
    assert set(codes) <= {65, 75}, outlets.texts


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_task_gives_a_secret_away(
    case: Case, workspace: Workspace, server: str, closed_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlets = Outlets()
    good = load_pipeline(workspace.pipeline(catalog="lab"))
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection("iceberg", properties_of(workspace.folder)))
    prepared = use_cases.plan_batch(good, None)
    found = credentials_of(case, workspace, server, closed_host)
    path = pipeline_of(case, workspace)
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection("iceberg", found["catalog_properties"]))
    monkeypatch.setenv(
        "AIRFLOW_CONN_PLANTED_STORE",
        connection("generic", {"object_store_options": found["storage_options"] or {"x": "y"}}),
    )
    for name, value in case.environ.items():
        monkeypatch.setenv(name, value)
    if case.storage is not None:
        prepared = {**prepared, "plan_uri": f"{case.url}/shuffle/events/0/plan.json"}
    pipeline = load_pipeline(path)
    for name, task in tasks(pipeline, prepared).items():
        airflow(outlets, name, task, pipeline, monkeypatch)
    add_files(outlets, workspace, path)
    assert outlets.giving_away(case) == {}
    assert {"plan failed", "sensor failed", "trigger failed", "plan xcom"} <= set(outlets.texts)


def connection(conn_type: str, extra: Mapping[str, Any]) -> str:
    """A connection of Airflow; a credential of two parts is its login and password, as users write it."""
    left = dict(extra)
    login, colon, password = str(left.pop("credential", "")).partition(":")
    known = {"conn_type": conn_type, "host": left.pop("uri", None), "login": login, "password": password}
    if not colon:
        known, left = {**known, "login": None, "password": None}, left | ({"credential": login} if login else {})
    return json.dumps({**known, "extra": left})


def tasks(pipeline: Pipeline, prepared: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The calls of the sensor, the trigger and each task of a DAG."""

    def phase(name: str) -> Callable[[], Any]:
        made = SparkPhaseOperator(task_id=name, phase=name, pipeline=pipeline)
        made.application_args = [prepared["plan_uri"]]
        passed_on = SimpleNamespace(xcom_pull=lambda **_: prepared)
        return lambda: made.execute({"ti": passed_on})

    def in_task(name: str, call: Callable[[], Any]) -> Callable[[], Any]:
        def run_task() -> Any:
            with clear_failures(name, pipeline):
                return call()

        return run_task

    sensor = TableSnapshotSensor(task_id="wait_for_snapshot", pipeline=pipeline, waits=False)
    return {
        "sensor": lambda: sensor.execute({}),
        "trigger": lambda: asyncio.run(first_event(pipeline)),
        "plan": in_task("plan", lambda: use_cases.plan_batch(pipeline, None)),
        **{name: phase(name) for name in ("insert_only", "shuffle_write", "shuffle_read")},
        "coalesce": in_task("coalesce", lambda: use_cases.coalesce_batch(pipeline, prepared)),
        "commit": in_task("commit", lambda: use_cases.commit(pipeline, prepared)),
        "cleanup": in_task("cleanup", lambda: use_cases.clean_up_batch(pipeline, prepared)),
    }


async def first_event(pipeline: Pipeline) -> None:
    deadline = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    trigger = PipelineSnapshotTrigger(pipeline=pipeline_to_mapping(pipeline), deadline=deadline)
    async for event in trigger.run():
        raise RuntimeError(json.dumps(event.payload))


def run(outlets: Outlets, *arguments: str) -> int:
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        listening(stack, logging.StreamHandler(log))
        code = main(list(arguments))
    outlets.add(f"{arguments[0]} stdout", out.getvalue())
    outlets.add(f"{arguments[0]} stderr", err.getvalue())
    outlets.add(f"{arguments[0]} log", log.getvalue())
    return code


def airflow(
    outlets: Outlets, name: str, task: Callable[[], Any], pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs a task as Airflow does and keeps what it logs, pushes and raises."""

    def push(key: str, value: Any) -> None:
        outlets.add(f"{name} xcom", json.dumps({key: value}))

    instance = SimpleNamespace(xcom_push=push, try_number=1, max_tries=3)
    context = {"dag_run": SimpleNamespace(dag_id=pipeline.name), "ti": instance}
    monkeypatch.setattr(failures, "get_current_context", lambda: context)
    log = io.StringIO()
    with ExitStack() as stack:
        listening(stack, logging.StreamHandler(log))
        try:
            outlets.add(f"{name} returned", json.dumps(task(), default=str))
        except BaseException as error:  # noqa: BLE001 - whatever a task ends in is looked at
            outlets.add(f"{name} failed", told_of(error))
    outlets.add(f"{name} log", log.getvalue())


def listening(stack: ExitStack, handler: logging.Handler) -> None:
    """Has a handler at the root, as Airflow has, that hears everything."""
    root = logging.getLogger()
    level = root.level
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    stack.callback(root.setLevel, level)
    stack.callback(root.removeHandler, handler)


def told_of(error: BaseException | None) -> str:
    """The texts of an error and of its causes, printed or not."""
    texts, left, seen = [], [error], set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        texts += ["".join(traceback.format_exception(each)), str(each), repr(each), repr(each.args), repr(vars(each))]
        left += [each.__cause__, each.__context__]
    return "\n".join(texts)


def add_files(outlets: Outlets, workspace: Workspace, *but: Path) -> None:
    for file in workspace.folder.rglob("*"):
        if file.is_file() and file not in but:
            outlets.add(str(file), file.read_bytes().decode("latin-1"))


WITHOUT_AIRFLOW = [
    Case(name="a token with a line break", catalog={"type": "rest", "uri": "{server}/401", "token": f"{SECRET}\n"}),
    Case(name="a store with a line break", storage={"access_key_id": f"{SECRET}\nx", "endpoint": "{closed}"}),
    Case(name="a store without a scheme", storage={"session_token": SECRET, "endpoint": "s3.example.com"}),
    Case(
        name="a database that refuses", catalog={"type": "sql", "uri": f"postgresql://me:{SECRET}@{{closed_host}}/db"}
    ),
]


@pytest.mark.parametrize("case", WITHOUT_AIRFLOW, ids=str)
def test_no_process_gives_a_secret_away(case: Case, workspace: Workspace, server: str, closed_host: str) -> None:
    outlets = Outlets()
    path = pipeline_of(case, workspace)
    credentials = json.dumps(credentials_of(case, workspace, server, closed_host))
    for arguments in (["run", "--verbose", path], ["validate", path]):
        done = icefloe_process(*arguments, ICEFLOE_CREDENTIALS=credentials)
        outlets.add("stdout", done.out)
        outlets.add("stderr", done.err)
        assert done.code in (65, 75), done.err
        assert "panicked" not in done.err
    add_files(outlets, workspace, path)
    assert outlets.giving_away(case) == {}


def test_credentials_that_are_none_are_not_shown(workspace: Workspace) -> None:
    for wrong in (SECRET, json.dumps([SECRET]), json.dumps({SECRET: {}}), json.dumps({"storage_options": SECRET})):
        done = icefloe_process("run", workspace.pipeline(), ICEFLOE_CREDENTIALS=wrong)
        assert done.code == 65, done.err
        assert traces_of(SECRET, done.out + done.err) == []


def test_a_spark_job_that_prints_its_environment_gives_no_secret_away(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "spark-submit"
    script.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\nenv\nenv | grep ICEFLOE_CREDENTIALS\nexit 1\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr("icefloe.engines.spark.submit.shutil.which", lambda *_, **__: str(script))
    pipeline = load_pipeline(workspace.pipeline(engine="spark"), environ={})
    jobs = SparkSubmit.of(pipeline, environ={"PATH": "/usr/bin:/bin"})
    credentials = Credentials(
        catalog_properties={"token": SECRET}, storage_options={"secret_access_key": f"{SECRET}\n"}
    )
    reference = reference_of(tmp_path, credentials)
    outlets, log = Outlets(), io.StringIO()
    with ExitStack() as stack:
        listening(stack, logging.StreamHandler(log))
        with pytest.raises(TransientError) as caught:
            jobs.run(Phase.INSERT_ONLY, reference)
    outlets.add("log", log.getvalue())
    outlets.add("error", told_of(caught.value) + repr(caught.value.facts))
    outlets.add("arguments", (tmp_path / "arguments").read_text())
    assert "ICEFLOE_CREDENTIALS" in outlets.texts["log"]
    assert outlets.giving_away(Case(name="spark")) == {}


def test_an_error_document_holds_no_secret(tmp_path: Path) -> None:
    credentials = Credentials(storage_options={"secret_access_key": SECRET})
    reference = reference_of(tmp_path, credentials)
    save_job_error(reference, "shuffle_write", "a", TerminalError(f"refused {SECRET}", path=f"s3://x/{SECRET}"))
    [file] = [path for path in (tmp_path / "7").rglob("*") if path.is_file()]
    assert "refused ***" in file.read_text()
    assert traces_of(SECRET, file.read_text()) == []


def reference_of(folder: Path, credentials: Credentials) -> BatchReference:
    settings = RunSettings(checkpoint_url=f"file://{folder}/checkpoint")
    return BatchReference(plan_url=f"file://{folder}/7/plan.json", credentials=credentials, settings=settings)
