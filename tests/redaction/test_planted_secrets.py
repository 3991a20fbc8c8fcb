"""Secrets planted in wrong configurations are found in nothing that leaves the process."""

import io
import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.servers.free_port import free_port
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.batch.run_settings import Credentials
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import Phase
from icefloe.node.machine import Machine
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.pipeline.model import Pipeline
from redaction.outlets import Outlets, add_files, credentials_of, filled, listening, pipeline_of, run, told_of
from redaction.traces import traces_of
from redaction.wrong_configurations import CASES, SECRET, VARIED_CASES, Case
from support.nodes.machines import certificates, member_file
from support.pipelines.pipeline_files import settings_at
from support.pipelines.workspace import Workspace, forked_module
from support.servers.private_authority import PrivateAuthority

pytestmark = pytest.mark.slow


COMMANDS = (["validate"], ["run", "--verbose"], ["plan"])


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


FLAT = [
    case for case in VARIED_CASES if case.catalog and not any(isinstance(v, Mapping) for v in case.catalog.values())
]


@pytest.mark.parametrize("case", FLAT, ids=str)
def test_no_command_gives_away_the_values_of_pyicebergs_configuration(
    case: Case, workspace: Workspace, server: str, closed_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlets = Outlets()
    path = pipeline_of(case, workspace)
    for key, value in filled(case.catalog, server, closed_host).items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAB__{key.replace('-', '_').replace('.', '__').upper()}", value)
    code = run(outlets, "run", str(path))
    add_files(outlets, workspace, path)
    assert outlets.giving_away(case) == {}
    assert code in (65, 75), outlets.texts


WITHOUT_AIRFLOW = [
    Case(name="a token with a line break", catalog={"type": "rest", "uri": "{server}/401", "token": f"{SECRET}\n"}),
    Case(
        name="a store with a line break",
        storage={"access_key_id": f"{SECRET}\nx", "endpoint": "{closed}", "allow_http": "true"},
    ),
]


@pytest.mark.parametrize("case", WITHOUT_AIRFLOW, ids=str)
def test_no_process_gives_a_secret_away(case: Case, workspace: Workspace, server: str, closed_host: str) -> None:
    outlets = Outlets()
    path = pipeline_of(case, workspace)
    credentials = json.dumps(credentials_of(case, workspace, server, closed_host))
    for arguments in (["run", "--verbose", path], ["validate", path]):
        done = forked_module("icefloe", *arguments, ICEFLOE_CREDENTIALS=credentials)
        outlets.add("stdout", done.out)
        outlets.add("stderr", done.err)
        assert done.code in (65, 75), done.err
        assert "panicked" not in done.err
    add_files(outlets, workspace, path)
    assert outlets.giving_away(case) == {}


PEM_KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"
WRONG_NODES: Mapping[str, Mapping[str, object]] = {
    "a key that is none": {"key": "planted.pem"},
    "a certificate that is a key": {"certificate": "planted.pem"},
    "an authority that is a key": {"authority": "planted.pem"},
    "a key in place of its path": {"key": PEM_KEY},
    "a key in place of the address": {"address": PEM_KEY, "folder": "/nowhere"},
    "a key in place of the folder": {"address": "127.0.0.1:1", "folder": PEM_KEY},
    "a key under another name": {"private_key": PEM_KEY},
    "a key as the name of a key": {PEM_KEY: "planted.pem"},
    "a key in place of a number": {"requests_at_once": PEM_KEY, "keep": PEM_KEY},
}


@pytest.mark.parametrize("name", WRONG_NODES)
def test_a_wrong_configuration_of_a_node_gives_no_key_away(
    name: str, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = PrivateAuthority.create(tmp_path / "authority")
    (tmp_path / "planted.pem").write_text(PEM_KEY)
    keys = {**certificates(authority), **WRONG_NODES[name]}
    keys = {key: str(tmp_path / value) if value == "planted.pem" else value for key, value in keys.items()}
    serving = {"address": f"127.0.0.1:{free_port()}", "folder": str(tmp_path / "outputs"), "listen": "127.0.0.1"}
    config = member_file(tmp_path / "node.yaml", **{**serving, **keys})
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    pipeline = workspace.pipeline(shuffle={"transfer": "nodes"})
    outlets = Outlets()
    codes = [run(outlets, "node", "--config", str(config)), run(outlets, "validate", str(pipeline))]
    outlets.add("reader", told_of(error_of_reader(config)))
    assert outlets.giving_away(Case(name="node")) == {}
    assert codes[0] in (65, 75), outlets.texts


def error_of_reader(config: Path) -> BaseException | None:
    """The error of a task that reads from a node by a configuration."""
    machine = Machine({CONFIG_VARIABLE: str(config), "ICEFLOE_PATIENCE_SECONDS": "0.2"})
    try:
        machine.read("127.0.0.1:1", [])
    except (TerminalError, TransientError) as error:
        return error
    return None


def test_credentials_that_are_none_are_not_shown(workspace: Workspace) -> None:
    for wrong in (SECRET, json.dumps([SECRET]), json.dumps({SECRET: {}}), json.dumps({"storage_options": SECRET})):
        done = forked_module("icefloe", "run", workspace.pipeline(), ICEFLOE_CREDENTIALS=wrong)
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
    pipeline = Pipeline.load(workspace.pipeline(engine="spark"), environ={})
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
    FailedAttempt.save(reference, "shuffle_write", "a", TerminalError(f"refused {SECRET}", path=f"s3://x/{SECRET}"))
    [file] = [path for path in (tmp_path / "7").rglob("*") if path.is_file()]
    assert "refused ***" in file.read_text()
    assert traces_of(SECRET, file.read_text()) == []


def reference_of(folder: Path, credentials: Credentials) -> BatchReference:
    settings = settings_at(f"file://{folder}/checkpoint")
    return BatchReference(plan_url=f"file://{folder}/7/plan.json", credentials=credentials, settings=settings)
