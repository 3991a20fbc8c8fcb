"""docker-compose.yaml, read by the library that `docker compose` reads it with, and docs/compose.md."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from demo.servers.server_process import ServerUnavailableError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline
from icefloe.sinks.sink import open_sink
from make.make_env import make_env
from support.missing import missing
from support.stack.reader_program import FileRefusedError, Stage, load_stages, read_compose
from support.stack.services import COMPOSE_FILE

pytestmark = [pytest.mark.slow, pytest.mark.extended]

ROOT = COMPOSE_FILE.parent
PAGE = (ROOT / "docs" / "compose.md").read_text(encoding="utf-8")
TEXT = COMPOSE_FILE.read_text()
DOCKERFILE = ROOT / "Dockerfile"
SECRET = re.compile(r"PASSWORD$|SECRET|FERNET|ACCESS_KEY|SQL_ALCHEMY_CONN|CONN_LAKE")
"""The names of variables whose values are secret, or hold one."""


@pytest.fixture(scope="module")
def env_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two, with other secrets in each."""
    paths = [tmp_path_factory.mktemp("env") / ".env" for _ in range(2)]
    assert all(make_env(path) for path in paths)
    return paths


@pytest.fixture(scope="module")
def documents(env_files: list[Path]) -> list[dict[str, Any]]:
    """The section of the file for each of them."""
    try:
        return [read_compose(COMPOSE_FILE, env_file) for env_file in env_files]
    except ServerUnavailableError as reason:
        missing("docker-compose.yaml cannot be read here", str(reason))


@pytest.fixture(scope="module")
def services(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return documents[0]["services"]


@pytest.fixture(scope="module")
def stages(documents: object) -> dict[str, Stage]:
    return load_stages(DOCKERFILE)


def variables(env_file: Path) -> dict[str, str]:
    lines = [line for line in env_file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_the_example_of_env_lists_what_the_file_asks_for_and_has_no_value() -> None:
    asked = re.findall(r"(?<!\$)\$\{([A-Z0-9_]+)", TEXT)
    assert variables(ROOT / ".env.example") == dict.fromkeys(sorted(set(asked)), "")
    assert asked == re.findall(r"(?<!\$)\$\{([A-Z0-9_]+):\?[^}]{20,}\}", TEXT)


@pytest.mark.parametrize("name", variables(ROOT / ".env.example"))
@pytest.mark.parametrize("line", ["", "{}=\n"], ids=["missing", "empty"])
def test_nothing_starts_without_a_secret(
    tmp_path: Path, documents: object, env_files: list[Path], name: str, line: str
) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text(re.sub(rf"^{name}=.*\n", line.format(name), env_files[0].read_text(), flags=re.MULTILINE))
    with pytest.raises(FileRefusedError, match=rf"required variable {name} is missing a value: is missing in \.env"):
        read_compose(COMPOSE_FILE, env_file)


def test_no_password_is_written_in_the_file(documents: list[dict[str, Any]], env_files: list[Path]) -> None:
    first, second = (dict(environment(document)) for document in documents)
    secret = {key for key in first if SECRET.search(key[1])}
    assert {key for key in first if first[key] != second[key]} == secret
    planted = variables(env_files[0]).values()
    assert all(any(value in first[key] for value in planted) for key in secret)
    elsewhere = json.dumps([{**service, "environment": {}} for service in documents[0]["services"].values()])
    assert not [value for value in planted if value in elsewhere]


def test_secrets_reach_only_the_services_that_need_them(services: dict[str, Any], env_files: list[Path]) -> None:
    secrets = variables(env_files[0])
    knows = {
        name: {key for key, secret in secrets.items() if secret in json.dumps(service)}
        for name, service in services.items()
    }
    airflow = {"AIRFLOW_API_SECRET_KEY", "AIRFLOW_DATABASE_PASSWORD", "AIRFLOW_FERNET_KEY", "AIRFLOW_JWT_SECRET"}
    store = {"S3_ACCESS_KEY", "S3_SECRET_KEY"}
    assert knows == {
        "airflow-api": airflow | store,
        "airflow-dag-processor": airflow,
        "airflow-database": {"AIRFLOW_DATABASE_PASSWORD"},
        "airflow-init": airflow | {"AIRFLOW_ADMIN_PASSWORD"},
        "airflow-scheduler": airflow | store | {"SPARK_AUTH_SECRET"},
        "airflow-triggerer": airflow | store,
        "event-broker": set(),
        "demo-flights": store,
        "lake-bucket": store,
        "object-store": store,
        "rest-catalog": store,
        "search-index": set(),
        "spark-master": {"SPARK_AUTH_SECRET"},
        "spark-worker-1": {"SPARK_AUTH_SECRET"},
        "spark-worker-2": {"SPARK_AUTH_SECRET"},
    }


def test_every_service_is_checked_for_health_or_runs_once(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if "healthcheck" in service:
            assert service["healthcheck"]["test"][0] == "CMD", name
            assert service["restart"] == "unless-stopped", name
        else:
            assert service["restart"] in ("no", "on-failure:3"), name
    needs = [need for service in services.values() for need in service.get("depends_on", {}).items()]
    waited_for = {(other, need["condition"]) for other, need in needs}
    assert {condition for other, condition in waited_for if "healthcheck" in services[other]} == {"service_healthy"}
    assert {condition for other, condition in waited_for if "healthcheck" not in services[other]} == {
        "service_completed_successfully"
    }


def test_only_a_profile_starts_a_sink_and_nothing_else_waits_for_it(services: dict[str, Any]) -> None:
    sinks = {name: service["profiles"] for name, service in services.items() if "profiles" in service}
    assert sinks == {"search-index": ["opensearch"], "event-broker": ["kafka"]}
    assert not [name for name, service in services.items() if sinks.keys() & service.get("depends_on", {}).keys()]


@pytest.mark.parametrize(
    ("file", "address"),
    [("flights_search.yaml", "http://search-index:9200"), ("flights_topic.yaml", "event-broker:9092")],
)
def test_the_example_of_a_sink_names_a_connection_to_it(services: dict[str, Any], file: str, address: str) -> None:
    pipeline = Pipeline.load(ROOT / "stack" / "examples" / file)
    check_pipeline(pipeline)
    connection = json.loads(
        services["airflow-scheduler"]["environment"][f"AIRFLOW_CONN_{str(pipeline.sink.conn_id).upper()}"]
    )
    sink = open_sink(asdict(pipeline.sink), connection=connection, open_store=lambda _: pytest.fail("unused"))
    assert sink.url.removeprefix("kafka://") == f"{address}/flights"
    sink.close()


def test_nothing_runs_as_root_or_listens_to_other_machines(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["user"].split(":")[0] not in ("", "0", "root"), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(service["mem_limit"]) <= 4 << 30, name
        assert {port["host_ip"] for port in service.get("ports", [])} <= {"127.0.0.1"}, name


def test_images_are_pinned(services: dict[str, Any], stages: dict[str, Stage]) -> None:
    built = {service["image"] for service in services.values() if "build" in service}
    pulled = {service["image"] for service in services.values()} - built
    for image in [*built, *pulled, *(stage.base for stage in stages.values())]:
        assert re.search(r":v?\d+\.\d+", image), image
    assert {service["build"]["target"] for service in services.values() if "build" in service} == set(stages)


def test_an_image_runs_as_the_user_that_its_services_name(services: dict[str, Any], stages: dict[str, Stage]) -> None:
    for name, service in services.items():
        if "build" in service:
            assert service["user"] == stages[service["build"]["target"]].user, name


def test_the_copied_folders_of_the_image_exist_and_are_let_into_its_build(stages: dict[str, Stage]) -> None:
    let_in = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if "!" in line]
    copied = [source for source, _ in stages["icefloe"].copies]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(source == each or source.startswith(f"{each}/") for each in let_in), source


def test_each_port_has_one_number(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("expose", [])]
    ports += [str(port["target"]) for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == len(set(ports))


def test_the_commands_of_the_page_name_services_of_the_file(services: dict[str, Any]) -> None:
    profiles = {profile for service in services.values() for profile in service.get("profiles", [])}
    commands = re.findall(r"`docker compose (?:--profile (\w+) )?(\w+)((?: [^ `]+)*)`", PAGE)
    assert len(commands) == PAGE.count("`docker compose ")
    for profile, subcommand, arguments in commands:
        assert profile in {"", *profiles}
        assert subcommand in ("down", "logs", "ps", "run", "up")
        names = [argument for argument in arguments.split() if not argument.startswith("-")]
        assert set(names[:1]) <= services.keys()


def test_the_table_of_the_page_lists_every_service_and_the_ports_that_this_machine_sees(
    services: dict[str, Any],
) -> None:
    table = PAGE.partition("## With Docker")[0]
    listed = [name for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)]
    assert sorted(listed) == sorted(services)
    published = {port["published"] for service in services.values() for port in service.get("ports", [])}
    assert published == set(re.findall(r"http://localhost:(\d+)", table))
    assert [name for name in re.findall(r"`([A-Z][A-Z0-9_]{5,})`", PAGE) if name not in TEXT] == []


def environment(document: dict[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    for service, settings in document["services"].items():
        for name, value in settings.get("environment", {}).items():
            yield (service, name), value
