"""Batches run with the rights on S3 that docs/operations.md tells to give, and no others."""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from demo.servers.server_process import ServerUnavailableError
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import Credentials
from icefloe.engines.run_batch import run_batch
from icefloe.errors import IcefloeError, TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.storage.location import open_store
from support.missing import missing
from support.pages.claims import Kind, claimed
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

[DOCUMENTED] = claimed(Kind.POLICY)


@dataclass(frozen=True, kw_only=True)
class Account:
    """A table on S3, a pipeline on it, and an account with a policy."""

    store: Versitygw
    bucket: str
    key: str
    secret: str
    folder: Path
    table: Table

    @property
    def options(self) -> dict[str, str]:
        return {**self.store.options, "access_key_id": self.key, "secret_access_key": self.secret}

    def allow(self, policy: Mapping[str, Any]) -> None:
        statements = [{**statement, "Principal": {"AWS": [self.key]}} for statement in policy["Statement"]]
        self.store.set_policy(self.bucket, json.dumps({**policy, "Statement": statements}))

    def run(self) -> Mapping[str, int]:
        keys = {"s3.access-key-id": self.key, "s3.secret-access-key": self.secret}
        properties = {**catalog_properties(self.folder, self.bucket, self.store), **keys}
        credentials = Credentials(
            catalog_properties=properties, storage_options=self.options, sink_options=self.options
        )
        pipeline = Pipeline.load(self.folder / "rows.yaml")
        report = run_batch(
            PipelineSession.open(pipeline, credentials=credentials, environ=os.environ), environ=os.environ
        ).report
        assert report is not None
        return report.batch.counts


@pytest.fixture
def account(tmp_path: Path, versitygw: Versitygw) -> Account:
    bucket = f"least{secrets.token_hex(6)}"
    versitygw.make_bucket(bucket)
    catalog = SqlCatalog("lab", **catalog_properties(tmp_path, bucket, versitygw))
    catalog.create_namespace("db")
    table = catalog.create_table("db.rows", pa.schema([pa.field("id", pa.int64())]))
    pipeline = {
        "version": 1,
        "catalog": "lab",
        "table": "db.rows",
        "storage": f"s3://{bucket}/icefloe",
        "engine": "local",
        "sink": {"type": "files", "path": f"s3://{bucket}/changes"},
    }
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(pipeline))
    key, secret = versitygw.add_account("user")
    made = Account(store=versitygw, bucket=bucket, key=key, secret=secret, folder=tmp_path, table=table)
    try:
        made.allow(documented_policy(bucket))
    except ServerUnavailableError as reason:
        missing("policies cannot be set here", str(reason))
    return made


def test_the_documented_rights_are_enough_for_both_routes_and_allow_no_more(account: Account) -> None:
    account.table.append(pa.table({"id": [1, 2, 3]}))
    assert account.run()["insert"] == 3
    account.table.overwrite(pa.table({"id": [4]}), overwrite_filter=EqualTo(term="id", value=2))
    assert account.run() == {"insert": 1, "delete": 1, "update_before": 0, "update_after": 0}
    with pytest.raises(TerminalError, match="access is denied"):
        open_store(f"s3://{account.bucket}/warehouse", options=account.options).put("foreign", b"")


@pytest.mark.parametrize("right", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
def test_without_one_of_the_rights_the_batch_stops_and_says_so(right: str, account: Account) -> None:
    account.table.append(pa.table({"id": [1]}))
    account.allow(without(right, documented_policy(account.bucket)))
    # A refused deletion comes as an answer to a list of keys, whose errors have no type: it reads as one to try again.
    with pytest.raises(IcefloeError, match=r"access is denied|Access Denied"):
        account.run()


def documented_policy(bucket: str) -> dict[str, Any]:
    return json.loads(DOCUMENTED.text.replace(":::lake", f":::{bucket}"))


def without(right: str, policy: dict[str, Any]) -> dict[str, Any]:
    """The policy less one right on storage and sink."""
    [working] = [statement for statement in policy["Statement"] if isinstance(statement["Action"], list)]
    others = [statement for statement in policy["Statement"] if statement is not working]
    actions = [action for action in working["Action"] if action != right]
    return {**policy, "Statement": [*others, {**working, "Action": actions}]}


def catalog_properties(folder: Path, bucket: str, store: Versitygw) -> dict[str, str]:
    places = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"s3://{bucket}/warehouse"}
    return {**places, **store.file_io}
