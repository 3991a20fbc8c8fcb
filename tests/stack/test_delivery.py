"""docker-compose.yaml as plain processes: what it starts delivers the demo's changes and asks for a login."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from demo.servers.server_process import ServerUnavailableError
from make.make_env import make_env
from support.missing import missing, require_package
from support.servers.daemons import wait_until
from support.servers.planted_secrets import CommandLines, files_with
from support.stack.services import ROOT, Services

pytestmark = [
    pytest.mark.extended,
    pytest.mark.servers,
    pytest.mark.daemons,
    pytest.mark.spark,
    pytest.mark.timeout(900),
]


DEMO = "demo-flights"
RUN = "docker compose run --rm "


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The services, where Airflow is, the secrets, and the arguments of all processes."""

    stack: Services
    watched: CommandLines
    airflow: str
    secrets: dict[str, str]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    for module in ("psycopg2", "asyncpg"):
        require_package(module, module)
    folder = tmp_path_factory.mktemp("stack")
    make_env(folder / ".env")
    secrets = dict(line.split("=", 1) for line in (folder / ".env").read_text().splitlines() if line[:1].isupper())
    before = set(psutil.Process().children(recursive=True))
    with ExitStack() as started:
        watched = started.enter_context(CommandLines())
        try:
            stack = started.enter_context(Services(folder / ".env", folder / "stack", further={DEMO: ["--brief"]}))
        except ServerUnavailableError as reason:
            missing("a service of docker-compose.yaml cannot be had here", str(reason))
        yield Running(stack=stack, watched=watched, airflow=f"http://127.0.0.1:{stack.ports[8080]}", secrets=secrets)
        stack.refuse_dead()
    assert set(psutil.Process().children(recursive=True)) <= before


def test_the_demo_is_delivered_and_its_documented_commands_work(running: Running) -> None:
    demo = running.stack.process(DEMO)
    wait_until(lambda: demo.exit_code is not None, what="the end of the demo", seconds=600)
    assert demo.exit_code == 0, demo.log.read_text()
    told = demo.log.read_text().splitlines()
    assert [line.split()[:2] for line in told[1:3]] == [["initial", "load"], ["delays", "of"]]
    assert told[-1] == "Verified: 284,176 changes of 2 batches, replayed, give the 280,886 rows of the table."
    page = (ROOT / "docs" / "compose.md").read_text(encoding="utf-8")
    said = [run(running, command.split()) for command in re.findall(rf"`{RUN}(.+?)`", page)]
    assert [text for text in said if "284,176 changes" in text]
    assert [text for text in said if re.search(r"last batch +1\b", text)], said


def test_the_scheduler_has_the_modules_of_its_tasks(running: Running) -> None:
    mapped = {Path(each.path).name for process in airflow("scheduler") for each in process.memory_maps()}
    assert any("libarrow" in name for name in mapped)


def test_airflow_lets_nobody_in_without_the_password_of_env(running: Running) -> None:
    for path in ("/api/v2/dags", "/icefloe/api/overview"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(running, path)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        token(running, "admin")
    dags = ask(running, "/api/v2/dags", token(running, running.secrets["AIRFLOW_ADMIN_PASSWORD"]))["dags"]
    assert {dag["dag_id"]: dag["is_paused"] for dag in dags} == {
        "flights_changes": False,
        "flights_changes__backfill": False,
        "icefloe_upkeep": False,
    }


def test_the_page_shows_that_everything_is_delivered(running: Running) -> None:
    bearer = token(running, running.secrets["AIRFLOW_ADMIN_PASSWORD"])

    def up_to_date() -> list[dict[str, Any]]:
        # The page answers before it has asked the store.
        shown = ask(running, "/icefloe/api/overview", bearer)["pipelines"]
        return [pipeline for pipeline in shown if pipeline["status"].get("lag_snapshots") == 0]

    [pipeline] = wait_until(up_to_date, what="a page without lag", seconds=60)
    assert (pipeline["dag_id"], pipeline["checkpoint_sentence"]) == ("flights_changes", None)


@pytest.mark.parametrize("example", ["flights_mirror", "flights_history"])
def test_the_example_of_a_table_is_delivered_and_verified(running: Running, example: str) -> None:
    running.stack.add_pipeline(example)
    icefloe = [DEMO, "python", "-m", "icefloe"]
    wait_until(
        lambda: re.search(r"last batch +0\b", run(running, [*icefloe, "status", example])),
        what="a first batch", seconds=300,
    )  # fmt: skip
    assert "280,886 rows" in run(running, [*icefloe, "verify", example])


def test_no_secret_is_written_but_to_the_files_of_passwords(running: Running) -> None:
    folder = running.stack.folder
    assert files_with("flights_changes", [folder / "volumes" / "airflow-home"])
    written = {
        name: files_with(secret, [folder]) for name, secret in running.secrets.items() if name != "S3_ACCESS_KEY"
    }
    passwords = written.pop("AIRFLOW_ADMIN_PASSWORD")
    assert [path.name for path in passwords] == ["passwords.json"]
    of_spark = written.pop("SPARK_AUTH_SECRET")
    assert [path.name for path in of_spark] == ["spark-defaults.conf"]
    assert [path.stat().st_mode & 0o77 for path in (*passwords, *of_spark)] == [0, 0]
    assert {name: paths for name, paths in written.items() if paths} == {}
    database = running.stack.dump()
    assert "flights_changes" in database
    assert any(b"deploy.SparkSubmit" in argument for argument in running.watched.arguments)
    for secret in running.secrets.values():
        assert secret not in database
        assert not [argument for argument in running.watched.arguments if secret.encode() in argument]


def run(running: Running, words: list[str]) -> str:
    """The output of a documented `docker compose run --rm SERVICE COMMAND`."""
    service, *command = words
    done = running.stack.run(service, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def airflow(component: str) -> list[psutil.Process]:
    """The processes of a component of Airflow, without those that run tasks."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if component in each.cmdline():
                found.append(each)
    assert found
    return found


def ask(running: Running, path: str, bearer: str | None = None, body: dict[str, str] | None = None) -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{running.airflow}{path}", data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def token(running: Running, password: str) -> str:
    return ask(running, "/auth/token", body={"username": "admin", "password": password})["access_token"]
