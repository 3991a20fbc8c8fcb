import json
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from icefloe.batch.context.references import table_files
from icefloe.batch.phases import MapTaskRun, run_phase
from icefloe.batch.run_settings import Credentials
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from icefloe.iceberg.catalog.confined_io import FilePlace, FilePlaces, TableAccess
from support.fakes.rest_server import rest_server
from support.pipelines.workshop import InOrder, Workshop


def test_every_task_opens_files_in_the_places_of_the_table_only(workshop: Workshop) -> None:
    workshop.append([1])
    batch = workshop.open()
    others = FilePlaces(places=(FilePlace(scheme="s3", authority="others"),))
    reference = batch.reference.for_tasks(batch.plan)
    outcome = MapTaskRun(
        phase=Phase.INSERT_ONLY, reference=reference, files=replace(batch.files, places=others)
    )(0)  # fmt: skip
    assert isinstance(outcome.error, TerminalError)
    assert re.search(r"names the file file://.*, which is outside s3://others: ", outcome.error.sentence)
    batch.run(Phase.INSERT_ONLY)


def test_references_to_tasks_show_no_secret(workshop: Workshop) -> None:
    workshop.append([1])
    files = TableAccess(properties={"s3.secret-access-key": "hidden"}, places=FilePlaces(places=()))
    assert "hidden" not in repr(files)
    assert pickle.loads(pickle.dumps(files)) == files


CLIENT_SECRET = "s3cr3t-of-the-client"
AUTHS: dict[str, Any] = {
    "oauth2": {"client_id": "me", "client_secret": CLIENT_SECRET, "token_url": "{uri}/token"},
    "basic": {"username": "me", "password": CLIENT_SECRET},
}


class Travelling(InOrder):
    """An engine that sends its tasks to nobody, as Spark sends them to executors."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        self.sent.append(cloudpickle.dumps(function))
        return super().map(pickle.loads(self.sent[-1]), numbers)


@pytest.mark.parametrize("kind", AUTHS)
def test_tasks_are_given_what_the_catalog_vends_for_the_files_and_nothing_that_opens_it(
    workshop: Workshop, kind: str
) -> None:
    workshop.append([1, 2, 3])
    batch = workshop.open()
    metadata = json.loads(Path(workshop.table.metadata_location.removeprefix("file://")).read_bytes())
    vended = {"s3.access-key-id": "vended", "s3.session-token": "vended for a while"}
    engine = Travelling()
    with rest_server(metadata, workshop.table.metadata_location, config=vended) as uri:
        auth = {name: value.replace("{uri}", uri) for name, value in AUTHS[kind].items()}
        catalog = {"type": "rest", "uri": uri, "auth": {"type": kind, kind: auth}, "s3.region": "r"}
        credentials = Credentials(catalog_properties=catalog, storage_options={"secret_access_key": "of-the-storage"})
        given = replace(batch.reference, credentials=credentials)
        run_phase(Phase.INSERT_ONLY, given, engine)
        files, again = (table_files(given) for _ in range(2))
    assert batch.commit().batch.counts["insert"] == 3
    assert files.properties.items() == {**vended, "s3.region": "r", "warehouse": files.properties["warehouse"]}.items()
    assert files == again
    for secret in (CLIENT_SECRET, "issued-for-the-catalog", uri):
        assert not any(secret.encode() in sent for sent in engine.sent)
    assert all(secret.encode() in engine.sent[0] for secret in (*vended.values(), "of-the-storage"))
