"""Batches whose table, storage, checkpoint and sink are all behind certificates of a private authority."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from support.fakes.faulty_proxy import FAULTS, every, faulty_proxy, is_write
from support.pipelines.workspace import Workspace, icefloe_process
from support.servers.private_authority import PrivateAuthority
from support.servers.versitygw import REGION, Versitygw
from support.tables.events import SCHEMA, rows

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(900)]

BUCKET = "private"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_pipeline_with_everything_over_https_delivers(versitygw: Versitygw, tmp_path: Path, engine: str) -> None:
    versitygw.make_bucket(f"{BUCKET}{engine}")
    authority = PrivateAuthority.create(tmp_path / "authority")
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"s3://{BUCKET}{engine}/warehouse"}
    catalog = SqlCatalog("lab", **place, **versitygw.file_io)
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", SCHEMA)
    table.append(rows([1, 2, 3], 1.0))
    lost = faulty_proxy(versitygw.port, FAULTS["reset"], is_struck=every(9), concerns=is_write, tls=authority.serving())
    quiet = faulty_proxy(versitygw.port, FAULTS["reset"], is_struck=lambda _: False, tls=authority.serving())
    with lost as stores, quiet as files:
        given: dict[str, str] = {**versitygw.file_io, "s3.endpoint": f"https://127.0.0.1:{files.port}"}
        environ: dict[str, Any] = {
            "AWS_ENDPOINT_URL": f"https://127.0.0.1:{stores.port}", "AWS_REGION": REGION, "AWS_CA_BUNDLE": "",
            "AWS_ACCESS_KEY_ID": versitygw.access_key, "AWS_SECRET_ACCESS_KEY": versitygw.secret_key,
            **{f"PYICEBERG_CATALOG__LAB__{key.replace('-', '_').replace('.', '__').upper()}": value
               for key, value in {"type": "sql", **place, **given}.items()},
        }  # fmt: skip
        pipeline = Workspace(folder=tmp_path, table=table).pipeline(
            catalog="lab", engine=engine, storage=f"s3://{BUCKET}{engine}/icefloe",
            sink={"type": "files", "path": f"s3://{BUCKET}{engine}/changes"},
            spark={"conf": {"spark.master": "local[1]", "spark.ui.enabled": "false"}},
        )  # fmt: skip
        refused = icefloe_process("run", pipeline, **environ)
        assert refused.code == 75
        assert "certificate" in refused.err
        trusting = environ | {"SSL_CERT_FILE": str(authority.bundle)}
        loaded = icefloe_process("run", pipeline, "--json", **trusting)
        assert (loaded.code, loaded.document["insert"]) == (0, 3), loaded.err
        table.delete("id = 2")
        changed = icefloe_process("run", pipeline, "--json", **trusting)
        assert (changed.code, changed.document["delete"]) == (0, 1), changed.err
        assert icefloe_process("verify", pipeline, **trusting).code == 0
        assert len(stores.struck) > 3
