"""Stores, checkpoints and a pipeline in blob storage of Azure, as Microsoft's own emulator keeps it."""

import io
import json
from collections import Counter
from inspect import signature
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from checkpoint import test_log
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TerminalError
from icefloe.storage.location import open_store, probe
from icefloe.storage.store import Store
from storage.contract import StoreContract
from support.buckets import Bucket
from support.pipelines.workspace import Workspace, icefloe
from support.servers.azurite import ACCOUNT, Azurite

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(900)]


@pytest.fixture
def behind(azurite: Azurite) -> Bucket:
    """A container of the test's own."""
    name = uuid4().hex
    return Bucket(name, azurite.make_container(name))


class TestAzurite(StoreContract):
    # Three requests of 256 deletions. The emulator answers eight of them at once in 20 seconds, which is the timeout.
    many = 600

    @pytest.fixture
    def store(self, azurite: Azurite, behind: Bucket) -> Store:
        return open_store(f"abfs://{behind.name}", options=azurite.options)


@pytest.fixture
def store(azurite: Azurite, behind: Bucket, monkeypatch: pytest.MonkeyPatch) -> Store:
    """For the tests of the checkpoint, which are those of tests/checkpoint and know a store by its URL alone."""
    for name, value in azurite.variables.items():
        monkeypatch.setenv(name, value)
    return open_store(f"abfs://{behind.name}/checkpoints")


@pytest.fixture
def checkpoint(store: Store) -> Checkpoint:
    return Checkpoint(store)


for _name, _test in vars(test_log).items():
    if _name.startswith("test_") and {"store", "checkpoint"} & signature(_test).parameters.keys():
        globals()[_name] = _test


def test_the_probe_passes_and_keeps_nothing(azurite: Azurite, behind: Bucket) -> None:
    for url in (f"abfs://{behind.name}", f"abfss://{behind.name}@{ACCOUNT}.dfs.core.windows.net"):
        probe(open_store(f"{url}/deep/folder", options=azurite.options))
    assert behind.keys() == set()


def test_a_wrong_key_is_denied_in_a_sentence_that_does_not_show_it(azurite: Azurite, behind: Bucket) -> None:
    wrong = "d3Jvbmcta2V5LXZhbHVlLW9mLWEtdGVzdA=="
    store = open_store(f"abfs://{behind.name}", options=azurite.options | {"account_key": wrong})
    with pytest.raises(TerminalError, match=r"access is denied( \(\w+\))?; check the credentials") as caught:
        store.put("key", b"")
    assert wrong not in str(caught.value)


def test_a_missing_container_is_named(azurite: Azurite) -> None:
    with pytest.raises(TerminalError, match="no such bucket"):
        open_store("abfs://nobody-made-this", options=azurite.options).create("key", b"")


def test_a_pipeline_delivers(azurite: Azurite, behind: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in azurite.variables.items():
        monkeypatch.setenv(name, value)
    workspace = Workspace.create(tmp_path)
    workspace.append(1, 2, 3)
    sink = {"type": "files", "path": f"abfs://{behind.name}/changes"}
    pipeline = workspace.pipeline(storage=f"abfs://{behind.name}/icefloe", sink=sink)
    assert icefloe("validate", pipeline).code == 0
    changes = (lambda: None, lambda: workspace.update(1, value=2.0), lambda: workspace.delete(2))
    delivered = []
    for number, change in enumerate(changes):
        change()
        done = icefloe("run", pipeline, "--json")
        assert (done.code, done.document["batch"]) == (0, number), done.err
        manifest = json.loads(behind.read(f"changes/batch={number}/_manifest.json") or b"")
        names = [name for part in manifest["parts"] for name in part["names"]]
        files = [io.BytesIO(behind.read(f"changes/batch={number}/{name}") or b"") for name in names]
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        delivered.append(Counter((row["_change_type"], row["id"], row["value"]) for row in rows))
    assert delivered == [
        Counter({("INSERT", each, 1.0): 1 for each in (1, 2, 3)}),
        Counter({("UPDATE_BEFORE", 1, 1.0): 1, ("UPDATE_AFTER", 1, 2.0): 1}),
        Counter({("DELETE", 2, 1.0): 1}),
    ]
    assert icefloe("verify", pipeline).code == 0
    assert icefloe("run", pipeline).document["batch"] is None
