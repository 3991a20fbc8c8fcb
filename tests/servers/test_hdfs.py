"""A store of another package, on a real HDFS: the shipped suite, and a pipeline whose storage it is."""

from pathlib import Path
from uuid import uuid4

import pytest
from fsspec.implementations.webhdfs import WebHDFS

from icefloe.storage.location import open_store, probe, store_time
from icefloe.storage.store import Store
from icefloe.testing import Behind, StoreConformance
from support.pipelines.workspace import Workspace, icefloe
from support.servers.hdfs import Hdfs
from support.sinks.installed import install_sinks

pytestmark = [pytest.mark.servers, pytest.mark.extended, pytest.mark.timeout(600)]


class Folder(Behind):
    """A folder of HDFS, as another client sees it."""

    def __init__(self, port: int, folder: str) -> None:
        self._files = WebHDFS("localhost", port=port, user="behind")
        self._folder = f"/{folder}"

    def read(self, key: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(f"{self._folder}/{key}"))
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        self._files.pipe_file(f"{self._folder}/{key}", data)

    def keys(self) -> set[str]:
        self._files.invalidate_cache()
        try:
            return {each.removeprefix(f"{self._folder}/") for each in self._files.find(self._folder)}
        except FileNotFoundError:
            return set()


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the store."""
    packages = tmp_path / "packages"
    place = "support.stores.webhdfs_store:open_webhdfs"
    install_sinks(packages, {"webhdfs": place}, name="icefloe_webhdfs", group="icefloe.stores")
    monkeypatch.syspath_prepend(packages)


@pytest.fixture
def folder(hdfs: Hdfs) -> str:
    return uuid4().hex


class TestWebhdfs(StoreConformance):
    # It deletes one value at a time.
    many = 80

    @pytest.fixture
    def store(self, hdfs: Hdfs, folder: str) -> Store:
        return open_store(f"{hdfs.url}/{folder}")

    @pytest.fixture
    def behind(self, hdfs: Hdfs, folder: str) -> Behind:
        return Folder(hdfs.port, folder)


def test_the_probe_passes_and_the_store_has_a_time(hdfs: Hdfs, folder: str) -> None:
    store = open_store(f"{hdfs.url}/{folder}")
    probe(store)
    assert store_time(store).tzinfo is not None
    assert list(store.list("")) == []


def test_files_of_dead_writers_go(hdfs: Hdfs, folder: str) -> None:
    store, behind = open_store(f"{hdfs.url}/{folder}"), Folder(hdfs.port, folder)
    behind.write("7/whole", b"x")
    behind.write("7/half#12", b"x")
    assert [each.key for each in store.list("")] == ["7/whole"]
    assert store.remove_unfinished("7") == 0
    assert store.remove_unfinished("7", is_over=True) == 1
    assert behind.keys() == {"7/whole"}


def test_a_pipeline_keeps_everything_there(hdfs: Hdfs, folder: str, tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "workspace")
    url = f"{hdfs.url}/{folder}"
    pipeline = workspace.pipeline(storage=f"{url}/storage", sink={"type": "files", "path": f"{url}/changes"})
    workspace.append(1, 2)
    assert icefloe("run", pipeline).code == 0
    workspace.append(3)
    assert icefloe("run", pipeline).code == 0
    assert icefloe("verify", pipeline).code == 0
    assert icefloe("sweep", f"{url}/storage", "--yes").code == 0
    keys = Folder(hdfs.port, folder).keys()
    assert {"changes/batch=0/_manifest.json", "changes/batch=1/_manifest.json"} <= keys
