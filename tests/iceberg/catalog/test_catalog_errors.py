"""Faults of a catalog's service by the real clients: those that may pass are tried again, and the others are not."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from botocore.session import get_session

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.catalogs import UnknownTableError, load_table
from support.fakes.answering_server import answering_server


class Session:
    """The part of boto3's session that PyIceberg uses. The package is for users of AWS: its clients are botocore's."""

    def __init__(self, *, botocore_session: Any, region_name: str | None = None, **_: object) -> None:
        self.session, self.region = botocore_session or get_session(), region_name

    def client(self, service: str, **options: Any) -> Any:
        return self.session.create_client(service, region_name=self.region, **options)


@dataclass(kw_only=True)
class Service:
    """A server of AWS's JSON protocol: ``known`` answers by operation, and one fault, or page, to all others."""

    url: str = ""
    status: int = 400
    code: str = ""
    known: dict[str, Any] = field(default_factory=dict)
    html: str = ""

    def answer(self, operation: str) -> tuple[int, bytes]:
        if operation in self.known:
            return 200, json.dumps(self.known[operation]).encode()
        fault = {"__type": self.code, "message": "so says a test"}
        return self.status, self.html.encode() or json.dumps(fault).encode()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Service]:
    boto3 = ModuleType("boto3")
    boto3.Session = Session
    monkeypatch.setitem(sys.modules, "boto3", boto3)
    for name in ("glue", "dynamodb"):
        # They keep the module that they imported.
        monkeypatch.setitem(sys.modules, f"pyiceberg.catalog.{name}", boto3)
        del sys.modules[f"pyiceberg.catalog.{name}"]
    found = Service()

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        # The operation of a request to AWS, and the path of one to a REST catalog.
        status, body = found.answer(request.headers.get("X-Amz-Target", request.path).rpartition(".")[2])
        return status, {}, body

    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no file"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with answering_server(answer) as (found.url, _):
        # PyIceberg's catalog on DynamoDB has no property for an address.
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", found.url)
        yield found


def load(service: Service, kind: str) -> None:
    of_glue: dict[str, Any] = {"glue.endpoint": service.url, "glue.max-retries": "0"}
    load_table({"name": "lake", "type": kind, "client.region": "eu-west-1", **of_glue}, "db.t")


def active() -> dict[str, Any]:
    return {"DescribeTable": {"Table": {"TableStatus": "ACTIVE"}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("glue", "ThrottlingException", 400),
        ("glue", "of a proxy", 502),
        ("glue", "<html>back soon</html>", 503),
        ("dynamodb", "InternalServerError", 500),
        ("dynamodb of the table", "ProvisionedThroughputExceededException", 400),
    ],
)
def test_a_fault_of_aws_that_may_pass_is_tried_again(service: Service, kind: str, code: str, status: int) -> None:
    service.code, service.status, service.known = code, status, active() if kind.endswith("table") else {}
    service.html = code if code.startswith("<") else ""
    with pytest.raises(TransientError, match=r"'lake' does not answer: cannot (load table db.t|open)") as caught:
        load(service, kind.split()[0])
    assert code in caught.value.sentence or service.html


@pytest.mark.parametrize(
    ("kind", "code"),
    [("glue", "AccessDeniedException"), ("glue", "ExpiredTokenException"), ("dynamodb", "AccessDeniedException")],
)
def test_a_refusal_of_a_catalog_on_aws_is_final(service: Service, kind: str, code: str) -> None:
    service.code, service.known = code, active()
    with pytest.raises(TerminalError, match=f"catalog 'lake': cannot load table db.t .*{code}"):
        load(service, kind)


@pytest.mark.slow
def test_a_table_that_glue_does_not_have_is_missing(service: Service) -> None:
    service.code = "EntityNotFoundException"
    with pytest.raises(UnknownTableError):
        load(service, "glue")


def test_credentials_that_cannot_be_fetched_may_come_later(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "aws").write_text("[default]\ncredential_process = false\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(TransientError, match=r"catalog 'lake' does not answer: cannot open it .CredentialRetrieval"):
        load(service, "glue")


def test_a_table_of_dynamodb_that_is_being_changed_is_waited_for(service: Service) -> None:
    service.known = {"DescribeTable": {"Table": {"TableStatus": "UPDATING"}}}
    with pytest.raises(TransientError, match=r"catalog 'lake' does not answer: cannot open it .*is not ACTIVE"):
        load(service, "dynamodb")


def test_a_request_that_a_rest_catalog_does_not_know_is_final(service: Service) -> None:
    service.known = {"/v1/config": {"defaults": {}, "overrides": {}}}
    service.status, service.html = 501, "<html>Not Implemented</html>"
    with pytest.raises(TerminalError, match=r"catalog 'lake': cannot load table db.t .*Not Implemented"):
        load_table({"name": "lake", "type": "rest", "uri": service.url}, "db.t")
