"""The commands of the pages, typed."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from obstore.store import S3Store
from pyiceberg.utils.config import Config

import airflow_environment
from docs.recorded_shell import record
from icefloe.batch.run_settings import Credentials
from icefloe.engines.spark.master import spark_master, spark_release
from icefloe.errors import TerminalError
from icefloe.orchestration.connections import object_store_options
from icefloe.orchestration.dags.dag_factory import backfill_range
from support.pages.blocks import ROOT, Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe
from support.sinks.document_folder import registered

pytestmark = pytest.mark.airflow

RunAirflow = Callable[..., None]


@pytest.mark.parametrize("block", claimed(Kind.SHELL), ids=str)
def test_the_commands_of_a_shell_do_what_they_are_for(
    block: Block, tmp_path: Path, flights_dag: RunAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = record(block, tmp_path)
    assert recorded.commands or recorded.variables or recorded.completed, f"{block} does nothing"
    with monkeypatch.context() as exported:
        for name, value in recorded.variables.items():
            exported.setenv(name, value)
        for name, value in recorded.variables.items():
            check_variable(name, value.replace(str(tmp_path), str(ROOT)).replace("/opt/icefloe", str(ROOT)))
    for program, *arguments in recorded.commands:
        match program:
            case "make":
                check_target(*arguments)
            case "airflow":
                flights_dag(*arguments)
                check_outcome(arguments)
            case _:
                raise AssertionError(f"{block}: nothing runs {program}; write it as a list of commands")


@pytest.mark.parametrize("block", claimed(Kind.COMMAND_LIST), ids=str)
def test_every_command_of_a_list_runs(block: Block, followed: Flights, tmp_path: Path) -> None:
    sink_file = tmp_path / "sink.yaml"
    sink_file.write_text(f"sink: {{type: documents, folder: {tmp_path}/documents}}\n")
    [backfill] = [path.name for path in followed.folder.rglob("_backfills/*")]
    for line in block.lines:
        program, *arguments = shlex.split(line.partition("  ")[0])
        if program == "make":
            check_target(*arguments)
        else:
            head = str(followed.lake.current_snapshot_id())
            known = {
                "ID": backfill, "41": "1", "0-41": "0-1", "N": head, "FILE": str(sink_file),
                "STORAGE": f"file://{followed.folder}/flights/storage",
            }  # fmt: skip
            with registered():
                done = icefloe(*(known.get(argument, argument) for argument in arguments))
            assert (done.code, done.err) == (0, ""), line
            assert done.out


@pytest.mark.parametrize("block", [block for block in claimed(Kind.SHELL) if "complete" in block.text], ids=str)
def test_the_shell_completes_the_arguments_of_icefloe(block: Block, tmp_path: Path) -> None:
    assert record(block, tmp_path).completed.endswith(" icefloe\n")


@pytest.fixture
def flights_dag(flights: Flights, airflow: RunAirflow, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunAirflow]:
    """Airflow's command line where the DAGs of the pages are known."""
    written = airflow_environment.PIPELINES / "flights.yaml"
    written.write_text(flights.write_pipeline("flights").read_text())
    airflow("dags", "reserialize")
    yield airflow
    written.unlink()
    airflow("dags", "reserialize")


def check_target(*arguments: str) -> None:
    """A target of the Makefile that could be made; what each does has tests of its own."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "--dry-run", *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def check_outcome(arguments: list[str]) -> None:
    match arguments:
        case ["connections", "add", conn_id, *_]:
            check_connection(conn_id)
            forget_connection(conn_id)
        case ["dags", "trigger", dag_id, "--conf", _]:
            assert backfill_range(conf_of_last_run(dag_id))


def forget_connection(conn_id: str) -> None:
    """Other tests share Airflow's database."""
    with create_session() as session:
        session.query(Connection).filter(Connection.conn_id == conn_id).delete()


def conf_of_last_run(dag_id: str) -> dict[str, Any]:
    with create_session() as session:
        runs = session.query(DagRun).filter(DagRun.dag_id == dag_id).order_by(DagRun.id.desc())
        return json.loads(json.dumps(runs.first().conf))


def check_variable(name: str, value: str) -> None:
    """A variable that is set, and that somebody reads."""
    match name.split("__"):
        case ["AIRFLOW", section, option]:
            known = conf.configuration_description[section.lower()]["options"]
            assert option.lower() in known, f"Airflow has no setting {name}"
            assert Path(value).exists() or not option.endswith("_FOLDER"), f"{value} does not exist"
        case ["PYICEBERG_CATALOG", catalog, *property_words]:
            assert value in (Config().get_catalog_config(catalog.lower()) or {}).values()
            assert property_words
        case [whole] if whole.startswith("AIRFLOW_CONN_"):
            check_connection(whole.removeprefix("AIRFLOW_CONN_").lower())
        case [whole] if whole.startswith("AWS_"):
            S3Store("lake", config={whole.lower(): value})  # type: ignore[arg-type]  # refuses a name that it would not read
        case ["SPARK_HOME"]:
            # The page's folder is no Spark here.
            with pytest.raises(TerminalError, match=f"^there is no Spark in {value}: set SPARK_HOME"):
                spark_release({name: value})
        case _:
            raise AssertionError(f"who reads the variable {name}? Say so in tests/docs/test_shell.py")


def check_connection(conn_id: str) -> None:
    """A connection that Airflow finds and icefloe can use."""
    connection = Connection.get_connection_from_secrets(conn_id)
    match connection.conn_type:
        case "iceberg":
            assert connection.host or connection.extra_dejson["uri"]
        case "git":
            assert connection.host
        case "spark":
            assert spark_master(conn_id, connection, conf={})
        case None:
            # A sink's, for commands outside Airflow: the sink's type says what it is.
            assert Credentials.from_environment(os.environ, sink_conn_id=conn_id).sink_connection["login"]
        case _:
            assert object_store_options(connection)
