"""A SQL catalog on PostgreSQL, its password in the connection alone."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog

from demo.servers.free_port import free_port
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import Credentials
from icefloe.engines.run_batch import run_batch
from icefloe.errors import IcefloeError, TransientError
from icefloe.pipeline.model import Pipeline
from support.missing import require_package
from support.servers.deployment_page import documented_variables
from support.servers.planted_secrets import files_with
from support.servers.postgresql import Postgresql

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]


@dataclass(frozen=True, kw_only=True)
class Lake:
    folder: Path
    pipeline: Path
    properties: Mapping[str, str]

    def session(self, replaced: str = "", by: str = "") -> PipelineSession:
        """The pipeline, opened with the properties of its catalog's connection, a part of its URI replaced."""
        uri = self.properties["uri"].replace(replaced, by) if replaced else self.properties["uri"]
        credentials = Credentials(catalog_properties={**self.properties, "uri": uri})
        return PipelineSession.open(Pipeline.load(self.pipeline), credentials=credentials, environ=os.environ)


@pytest.fixture
def lake(tmp_path: Path, postgresql: Postgresql) -> Lake:
    require_package("psycopg2", "psycopg2-binary")
    postgresql.make_database("iceberg")
    replaced = {"PASSWORD@db.example.com:5432": postgresql.authority, "s3://lake/warehouse": f"file://{tmp_path}"}
    properties = json.loads(documented_variables(replaced)["AIRFLOW_CONN_LAKE"])["extra"]
    catalog = SqlCatalog("lake", **properties, init_catalog_tables="true")
    catalog.create_namespace("db")
    catalog.create_table("db.events", pa.schema([pa.field("id", pa.int64())])).append(pa.table({"id": [1, 2, 3]}))
    pipeline = tmp_path / "events.yaml"
    document = {
        "version": 1,
        "catalog": "lake",
        "table": "db.events",
        "storage": f"file://{tmp_path}/storage",
        "engine": "local",
        "sink": {"type": "files", "path": f"file://{tmp_path}/changes"},
    }
    pipeline.write_text(yaml.safe_dump(document))
    return Lake(folder=tmp_path, pipeline=pipeline, properties=properties)


def test_a_batch_is_delivered_and_a_wrong_password_or_port_is_reported_without_it(
    lake: Lake, postgresql: Postgresql
) -> None:
    report = run_batch(lake.session(), environ=os.environ).report
    assert report is not None
    assert report.batch.counts["insert"] == 3
    assert files_with(postgresql.password, [lake.folder]) == []

    with pytest.raises(IcefloeError, match="password authentication failed") as refused:
        lake.session(postgresql.password, "another-secret")
    assert "another-secret" not in str(refused.value)
    with pytest.raises(TransientError, match="catalog 'lake' does not answer") as unanswered:
        lake.session(f":{postgresql.port}/", f":{free_port()}/")
    assert postgresql.password not in str(unanswered.value)
