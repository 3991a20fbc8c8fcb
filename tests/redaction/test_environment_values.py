"""Values of `${NAME}` leave the process in the keys of places alone."""

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from icefloe.batch.run_settings import RunSettings
from icefloe.errors import IcefloeError, TerminalError
from icefloe.pipeline.environment import SHOWN
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.validation import pipeline_schema
from icefloe.redaction.hidden import redacted
from icefloe.sinks.kafka.kafka_clients import _ClientLog
from icefloe.sinks.kafka.kafka_sink import open_kafka_sink
from icefloe.sinks.opensearch.opensearch_sink import open_opensearch_sink
from redaction.traces import traces_of
from support.pipelines.workspace import Workspace, icefloe, python

numbers = itertools.count(1)
MINIMAL = {
    "version": 1, "name": "p", "catalog": "lake", "table": "db.events", "storage": "file:///nowhere/s",
    "sink": {"type": "files", "path": "file:///nowhere/c"},
}  # fmt: skip
SINKS = {
    "opensearch": {"type": "opensearch", "url": "http://127.0.0.1:1", "index": "events"},
    "kafka": {"type": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic": "events"},
}
KINDS = ("files", *SINKS)


@pytest.fixture
def secret() -> str:
    """A word that no rule takes for a secret, another one in each test: what was hidden once stays so."""
    return f"tenant{next(numbers)}ofberlin"


def keys_below(schema: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All keys below a part of the schema, also a name that it does not know if it takes any."""
    schema = {**pipeline_schema()["$defs"].get(schema.get("$ref", "").rpartition("/")[2], {}), **schema}
    yield path
    if path and any("object" in form.get("type", "") for form in (schema, *schema.get("anyOf", ()))):
        yield (*path, "spark.any")
    for form in (schema, *schema.get("anyOf", ())):
        for name, below in form.get("properties", {}).items():
            yield from keys_below(below if isinstance(below, dict) else {}, (*path, name))


def all_keys() -> list[tuple[str, tuple[str, ...]]]:
    schema = pipeline_schema()
    own = [("files", path) for path in keys_below(schema, ()) if path and path[0] != "sink"]
    return own + [(kind, path) for kind in KINDS for path in keys_below(schema["$defs"][f"{kind}_sink"], ("sink",))]


def pipeline_with(path: tuple[str, ...], value: str, kind: str) -> dict[str, Any]:
    data = yaml.safe_load(yaml.safe_dump({**MINIMAL, "sink": SINKS.get(kind, MINIMAL["sink"])}))
    *parents, last = path
    below = data
    for parent in parents:
        if not isinstance(below.get(parent), dict):
            below[parent] = {}
        below = below[parent]
    listed = path[-1] in {"columns", "allowed_locations"}
    below[last] = [value] if listed else value
    return data


def is_shown(path: tuple[str, ...]) -> bool:
    return any(path[: len(key)] == key for key in SHOWN)


@pytest.mark.parametrize(("kind", "path"), all_keys(), ids=str)
@pytest.mark.parametrize("form", ["{}", "a:{}@broker-{}:9092,b{}:1", "x like '%{}'"])
def test_a_value_of_any_key_is_hidden_unless_the_key_is_a_place(
    kind: str, path: tuple[str, ...], form: str, secret: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(pipeline_with(path, form.replace("{}", "${X}"), kind)))
    try:
        Pipeline.load(file, environ={"X": secret})
    except IcefloeError as error:
        assert traces_of(secret, str(error)) == []  # noqa: PT017 - another form may be no fault
    said = form.replace("{}", secret).replace("https://", "").partition("/")[0]
    shown = redacted(f"cannot reach {said} at {secret.upper()} {secret}: no such host 'b{secret}'")
    assert (secret in shown) is is_shown(path)
    if not is_shown(path):
        assert f"b{secret}" not in shown or "b{}" not in form


def test_places_are_keys_of_the_schema() -> None:
    assert {key for key in SHOWN if key != ("catalog", "warehouse")} <= {path for _, path in all_keys()}


def test_a_value_that_the_file_or_a_place_shows_anyway_is_shown(tmp_path: Path, secret: str) -> None:
    file = tmp_path / "p.yaml"
    data = pipeline_with(("sink", "topic"), "${X}.events", "kafka")
    file.write_text(yaml.safe_dump({**data, "storage": "file:///nowhere/${X}"}))
    Pipeline.load(file, environ={"X": secret})
    assert secret in redacted(f"file:///nowhere/{secret} is missing")


def test_a_driver_hides_what_its_task_hid(tmp_path: Path, secret: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(pipeline_with(("sink", "url"), "https://${X}", "opensearch")))
    handed = RunSettings(pipeline=Pipeline.load(file, environ={"X": secret})).to_environment()
    code = "import os\nfrom icefloe.batch.run_settings import RunSettings\nRunSettings.from_environment(os.environ)\n"
    code += f"from icefloe.redaction.hidden import redacted\nprint(redacted('no {secret} here'))"
    assert python(["-c", code], timeout_seconds=120, **handed).out == "no *** here\n"


WRONG_ADDRESSES = (
    "https://[${X}", "https://h:${X}", "https://h\u200b${X}", "https://u:${X}@h", "https://${X}@h", "https://h/?a=${X}",
    "https://h/#${X}", "ftp://${X}", "https:///${X}", "https://h:99999${X}", "https://h ${X}", "https://${X}\\@h",
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "key", "written"),
    [
        (kind, key, written)
        for kind, key in (("opensearch", "url"), ("kafka", "bootstrap_servers"), ("kafka", "schema_registry"))
        for written in WRONG_ADDRESSES
        # A broker's address has no scheme, and a host of any name may exist.
        if key != "bootstrap_servers" or written.replace("https://", "") not in {"${X}", "/${X}"}
    ],
)
def test_a_wrong_address_is_refused_without_its_value(
    written: str, kind: str, key: str, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key == "bootstrap_servers":
        written = written.replace("https://", "")
    monkeypatch.setenv("X", secret)
    value = {"url": written} if key == "schema_registry" else written
    file = tmp_path / "p.yaml"
    sink = {**SINKS[kind], key: value, **({"format": "avro"} if key == "schema_registry" else {})}
    file.write_text(yaml.safe_dump({**MINIMAL, "sink": sink}))
    done = icefloe("validate", file)
    assert done.code == 65
    named = f"sink.{key}{'.url' if key == 'schema_registry' else ''}"
    assert named in done.out
    assert traces_of(secret, done.out + done.err) == []


@pytest.mark.parametrize(
    "connection",
    [
        {"host": "https://[{}"}, {"host": "u:{}@h"}, {"host": "h", "port": "{}"},
        {"bootstrap.servers": "u:{}@broker:9092"}, {"bootstrap.servers": "broker:1,b@{}:2"},
    ],
)  # fmt: skip
def test_a_wrong_host_of_a_connection_is_refused_without_its_value(connection: dict[str, str], secret: str) -> None:
    given: dict[str, Any] = {key: value.replace("{}", secret) for key, value in connection.items()}
    is_search = "host" in given
    opened, options = (
        (open_opensearch_sink, {"index": "events"}) if is_search else (open_kafka_sink, {"topic": "events"})
    )
    with pytest.raises(TerminalError, match=r"sink\.conn_id") as refused:
        opened(options, connection=given if is_search else {"extra": given}, open_store=lambda _: pytest.fail("unused"))
    assert traces_of(secret, str(refused.value)) == []


@pytest.mark.parametrize("kind", ["opensearch", "kafka"])
def test_no_command_shows_the_address_of_a_sink(
    kind: str, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST", f"{secret}.invalid")
    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "2")
    workspace = Workspace.create(tmp_path)
    workspace.append(1, 2)
    sink = {**SINKS[kind], **({"url": "http://${HOST}:9200"} if kind == "opensearch" else {})}
    sink |= {"bootstrap_servers": "${HOST}:9092"} if kind == "kafka" else {}
    path = workspace.pipeline(sink=sink, identifier_columns=["id"])
    for command in (["validate"], ["run", "--verbose"], ["verify"]):
        done = icefloe(command[0], path, *command[1:])
        assert traces_of(secret, done.out + done.err) == [], command


def test_lines_of_librdkafka_are_those_of_a_foreign_program(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        _ClientLog().log(logging.ERROR, "%s: GET https://h/?sig=%s", "FAIL", "abcdefgh1234")
    assert "abcdefgh1234" not in caplog.text
