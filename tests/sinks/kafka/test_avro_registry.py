"""The registry's settings and answers: one sentence for each mistake, before the first run and without a secret."""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.kafka.kafka_sink import KafkaSink, open_kafka_sink
from icefloe.sinks.kafka.schemas import AvroRegistry
from icefloe.storage.location import open_store
from support.fakes.answering_server import answering_server

SECRET = "registry-s3cr3t"
NOWHERE = "http://127.0.0.1:1"


def sink_with(url: str, **settings: Any) -> KafkaSink:
    """A sink without brokers: its check asks the registry first."""
    options = {
        "topic": "flights",
        "bootstrap_servers": "127.0.0.1:1",
        "format": "avro",
        "schema_registry": {"url": url},
    }
    extra = {f"schema.registry.{name}": value for name, value in {"max.retries": 0, **settings}.items()}
    return open_kafka_sink(options, connection={"extra": extra}, open_store=open_store)


@pytest.mark.parametrize(
    "url",
    [
        f"icefloe:{SECRET}@registry:8081",
        f"http://registry:{SECRET}",
        f"HTTPS://icefloe:{SECRET}@registry:8081",
    ],
)
def test_an_address_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(
        TerminalError, match=r"sink\.schema_registry\.url is not the URL of a schema registry"
    ) as caught:
        sink_with(url).check()
    assert SECRET not in caught.value.sentence


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"nonsense": SECRET}, "schema.registry.* in the extra .*nonsense"),
        ({"basic.auth.user.info": SECRET}, "schema.registry.* in the extra .*basic.auth.user.info"),
        ({"proxy": f"icefloe:{SECRET}@proxy:3128"}, "schema.registry.* in the extra .*proxy"),
        ({"cache.capacity": "1000"}, "schema.registry.* in the extra .*cache.capacity must be a number"),
        ({"ssl.ca.location": "/missing.pem"}, "or a file that it names cannot be read"),
        (
            {"ssl.certificate.location": __file__, "ssl.key.location": __file__, "ssl.key.password": SECRET},
            "or a file that it names cannot be read",
        ),
    ],
)
def test_a_setting_that_does_not_fit_is_named(
    settings: Mapping[str, Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "1")
    with pytest.raises(TerminalError, match=named) as caught:
        sink_with(NOWHERE, **settings).check()
    assert SECRET not in caught.value.sentence


@dataclass(kw_only=True)
class Registry:
    """A server with one answer for each request."""

    url: str = ""
    status: int = 200
    body: str = "[1]"


@pytest.fixture
def registry() -> Iterator[Registry]:
    found = Registry()
    with answering_server(lambda _: (found.status, {}, found.body.encode())) as (found.url, _):
        yield found


def answer(code: int) -> str:
    return json.dumps({"error_code": code, "message": "so says a test"})


@pytest.mark.parametrize(("status", "body"), [(200, "[]"), (403, answer(40301))], ids=["no subject yet", "no right"])
def test_a_registry_is_right_though_it_shows_no_subjects(registry: Registry, status: int, body: str) -> None:
    registry.status, registry.body = status, body
    found = sink_with(registry.url)._format.registry
    assert found is not None
    found.check()


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, "{}"), (200, '"OK"'), (404, "<html>Not Found</html>"), (404, answer(404)), (302, ""), (405, "")],
)
def test_a_place_that_is_no_registry_is_refused(registry: Registry, status: int, body: str) -> None:
    registry.status, registry.body = status, body
    with pytest.raises(TerminalError, match=r"sink\.schema_registry\.url leads to no schema registry"):
        sink_with(registry.url).check()


def test_a_user_that_the_registry_refuses_is_named_without_the_password(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    registry.status, registry.body = 401, json.dumps({"error_code": 40101, "message": f"no user icefloe:{SECRET}"})
    sink = sink_with(registry.url, **{"basic.auth.user.info": f"icefloe:{SECRET}"})
    with pytest.raises(TerminalError, match=re.escape("correct schema.registry.basic.auth.user.info in the")) as it:
        sink.check()
    assert SECRET not in it.value.sentence + caplog.text


@pytest.mark.parametrize(("status", "body"), [(200, "<html>back soon</html>"), (503, "<html>back soon</html>")])
def test_a_page_of_maintenance_may_pass(registry: Registry, status: int, body: str) -> None:
    registry.status, registry.body = status, body
    with pytest.raises(TransientError, match="the schema registry of topic flights did not answer"):
        sink_with(registry.url).check()


def test_a_schema_is_registered_once_for_all_messages_however_the_registry_writes_it(registry: Registry) -> None:
    """The client would register again what the registry answers in another form than it was asked for."""
    schema: dict[str, Any] = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    registry.body = json.dumps({"id": 7, "version": 1, "schemaType": "AVRO", "schema": json.dumps(schema, indent=1)})
    number, write = AvroRegistry("flights", {"url": registry.url, "max.retries": 0}).register("value", schema)
    registry.status = 503
    assert (number, [write({"id": 1}), write({"id": 2})]) == (7, [b"\0\0\0\0\7\2", b"\0\0\0\0\7\4"])


@pytest.mark.parametrize(
    ("value", "refusal"),
    [({}, "no value and no default for id"), ({"id": "one"}, "an integer is required on field id")],
)
def test_a_value_that_the_schema_refuses_keeps_the_sentence_of_avro(value: object, refusal: str) -> None:
    schema: dict[str, Any] = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    _, write = AvroRegistry("flights", {"url": "mock://tests"}).register("value", schema)
    with pytest.raises((TypeError, ValueError), match=refusal):
        write(value)


def test_a_schema_that_is_refused_says_so(registry: Registry) -> None:
    registry.status, registry.body = 409, answer(409)
    with pytest.raises(TerminalError, match="the schema registry refuses the schemas of topic flights"):
        AvroRegistry("flights", {"url": registry.url, "max.retries": 0}).register("value", "string")
