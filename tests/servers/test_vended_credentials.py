"""Credentials that the catalog hands out with a table, and that end in the middle of a batch."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog import load_catalog

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.phases import run_phase
from icefloe.batch.run_settings import Credentials
from icefloe.engines.local import LocalEngine
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.engines.run_batch import BatchRun, run_batch
from icefloe.flow import Phase
from icefloe.iceberg.catalog.file_io import FileUnansweredError
from icefloe.pipeline.model import Pipeline
from support.servers.planted_secrets import files_with
from support.servers.rest_catalog import RestCatalog
from support.servers.serving import Answering, serving
from support.servers.versitygw import REGION, Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(900)]

_DELEGATION = "X-Iceberg-Access-Delegation"


@dataclass(kw_only=True)
class Vending:
    """The credentials that were handed out.

    Attributes:
        uri: of the catalog.
        live: secrets by access key.
        ended: those that the store does not know any more.
        useless: how many of the next accounts end as soon as they are handed out.
    """

    store: Versitygw
    uri: str = ""
    live: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    useless: int = 0

    def hand_out(self) -> dict[str, str]:
        """The properties of a new account."""
        key, secret = self.store.add_account()
        self.live[key] = secret
        if self.useless:
            self.useless -= 1
            self.end()
        return {"s3.access-key-id": key, "s3.secret-access-key": secret}

    def end(self) -> None:
        """Ends all that was handed out so far."""
        while self.live:
            key, secret = self.live.popitem()
            self.store.remove_account(key)
            self.ended[key] = secret


@contextmanager
def vending_catalog(catalog: RestCatalog, store: Versitygw) -> Iterator[Vending]:
    """Stands before a catalog and adds credentials to the tables that it gives, where the client asks for them.

    It gives a token to whoever posts anything.
    """
    vending = Vending(store=store)

    class Handler(Answering, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer_of(catalog.uri + self.path)
            asked = self.headers.get(_DELEGATION) == "vended-credentials"
            if asked and status == 200 and self.path.rpartition("/")[0].endswith("/tables"):
                table = json.loads(body)
                body = json.dumps(table | {"config": table.get("config", {}) | vending.hand_out()}).encode()
            self.answer(status, body, Content_Type="application/json")

        def do_POST(self) -> None:
            self.body()
            token = {"access_token": "a-token", "expires_in": 3600}
            self.answer(200, json.dumps(token).encode(), Content_Type="application/json")

    with serving(Handler) as url:
        vending.uri = url
        yield vending


def answer_of(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


FILES = 6
_numbers = count()


@dataclass(frozen=True, kw_only=True)
class EndingEngine:
    """Ends all credentials when a part of the tasks is done."""

    vending: Vending
    tasks: int

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        first = LocalEngine(threads=1).map(function, numbers[: self.tasks])
        if len(numbers) > self.tasks:
            self.vending.end()
        return first + LocalEngine(threads=1).map(function, numbers[self.tasks :])


@dataclass(frozen=True, kw_only=True)
class EndingPhases(PhaseRunner):
    """Runs the phases on such an engine.

    Attributes:
        useless: how many of the credentials that each phase is handed have ended by then.
    """

    vending: Vending
    tasks: int
    useless: int = 0

    def run(self, phase: Phase, reference: BatchReference) -> None:
        self.vending.useless = self.useless
        engine = EndingEngine(vending=self.vending, tasks=self.tasks)
        run_phase(phase, reference, engine)


@pytest.fixture
def vending(rest_catalog: RestCatalog, versitygw: Versitygw) -> Iterator[Vending]:
    with vending_catalog(rest_catalog, versitygw) as started:
        yield started


@pytest.fixture
def session(tmp_path: Path, rest_catalog: RestCatalog, versitygw: Versitygw, vending: Vending) -> PipelineSession:
    """A pipeline whose map tasks read one file each, and whose catalog has no credentials for them."""
    name = f"vended{next(_numbers)}"
    versitygw.make_bucket(name)
    catalog = load_catalog("lake", type="rest", uri=rest_catalog.uri, **versitygw.file_io)
    catalog.create_namespace_if_not_exists("vended")
    table = catalog.create_table(f"vended.{name}", pa.schema([pa.field("id", pa.int64())]))
    for number in range(FILES):
        table.append(pa.table({"id": [number]}))
    document = {
        "version": 1,
        "catalog": {"type": "rest", "uri": vending.uri, "s3.endpoint": versitygw.endpoint, "s3.region": REGION},
        "table": f"vended.{name}",
        "storage": f"s3://{name}/icefloe",
        "engine": "local",
        "shuffle": {"map_task_bytes": 1},
        "spark": {"conf": {"spark.master": "local[2]", "spark.ui.enabled": "false"}},
        "sink": {"type": "files", "path": f"s3://{name}/changes"},
    }
    path = tmp_path / "vended.yaml"
    path.write_text(yaml.safe_dump(document))
    oauth2 = {"client_id": "me", "client_secret": "s3cr3t-of-the-client", "token_url": f"{vending.uri}/token"}
    credentials = Credentials(
        catalog_properties={"auth": {"type": "oauth2", "oauth2": oauth2}},
        storage_options=versitygw.options,
        sink_options=versitygw.options,
    )
    return PipelineSession.open(Pipeline.load(path), credentials=credentials, environ=os.environ)


def delivered(session: PipelineSession, vending: Vending, tasks: int) -> BatchRun:
    return run_batch(
        session,
        environ=os.environ,
        phases=EndingPhases(pipeline=session.pipeline, vending=vending, tasks=tasks),
    )


@pytest.mark.parametrize("tasks", [1, 2, FILES])
def test_a_batch_outlives_the_credentials_of_its_files(
    session: PipelineSession, vending: Vending, versitygw: Versitygw, tasks: int
) -> None:
    run = delivered(session, vending, tasks)
    assert run.report is not None
    assert run.report.batch.counts["insert"] == FILES
    assert len(vending.ended) >= (FILES - 1) // tasks
    assert vending.live
    for secret in [*vending.live.values(), *vending.ended.values()]:
        assert files_with(secret, [versitygw.folder / "data"]) == []


def test_credentials_that_never_help_end_the_batch_and_the_next_run_resumes_it(
    session: PipelineSession, vending: Vending
) -> None:
    phases = EndingPhases(pipeline=session.pipeline, vending=vending, tasks=1, useless=99)
    with pytest.raises(FileUnansweredError, match=r"data file .* could not be read"):
        run_batch(session, environ=os.environ, phases=phases)
    assert len(vending.ended) <= 5, "it does not try for ever"
    run = delivered(session, vending, FILES)
    assert run.report is not None
    assert (run.report.batch.batch_number, run.report.batch.counts["insert"]) == (0, FILES)
