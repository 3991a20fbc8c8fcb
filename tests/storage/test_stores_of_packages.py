"""Stores of other packages are found by the scheme of a URL, and pass the suite that icefloe ships."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.pipeline.url import url_fault
from icefloe.redaction.hidden import redacted
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from icefloe.testing import Behind, StoreConformance
from support.pipelines.workspace import Workspace, icefloe
from support.sinks.installed import install_sinks
from support.stores.vault import BOXES, OPENED

URL = "vault://box.example:7000"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of a store."""
    packages = tmp_path / "packages"
    places = {"vault": "support.stores.vault:open_vault", "careless": "support.stores.careless_folder:open_careless"}
    install_sinks(packages, places, name="icefloe_vault", group="icefloe.stores")
    monkeypatch.syspath_prepend(packages)
    yield
    BOXES.clear()
    OPENED.clear()


class Files(Behind):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: str) -> bytes | None:
        return (self._folder / key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        raise NotImplementedError

    def keys(self) -> set[str]:
        return {str(file) for file in self._folder.rglob("*") if file.is_file()}


class Values(Behind):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def read(self, key: str) -> bytes | None:
        return BOXES[URL].get(f"{self._folder}/{key}", (None, None))[0]

    def write(self, key: str, data: bytes) -> None:
        BOXES[URL][f"{self._folder}/{key}"] = data, datetime.now(UTC)

    def keys(self) -> set[str]:
        return {key.removeprefix(f"{self._folder}/") for key in BOXES[URL]}


class TestVault(StoreConformance):
    options = None

    @pytest.fixture
    def store(self) -> Store:
        return open_store(f"{URL}/below/this")

    @pytest.fixture
    def behind(self) -> Behind:
        return Values("below/this")


def test_a_store_that_looks_and_then_writes_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARELESS_FOLDER", str(tmp_path / "values"))
    suite, threads, processes = StoreConformance(), "threads", "processes"
    suite.test_of_racing_creators_exactly_one_wins_and_its_value_is_kept(
        open_store(f"careless://box/{threads}"), Files(tmp_path / "values" / threads)
    )
    with pytest.raises(AssertionError, match=r"races/.*: \['True', 'True'\]"):
        suite.test_of_processes_that_create_at_once_exactly_one_wins(
            open_store(f"careless://box/{processes}"), Files(tmp_path / "values" / processes)
        )


def test_it_gets_the_options_of_the_storage_and_none_is_shown() -> None:
    open_store(URL, options={"token": "of-the-vault", "coordination": "", "dynamodb_region": "eu-west-1"})
    assert OPENED == [{"token": "of-the-vault"}]
    assert "of-the-vault" not in redacted("it said of-the-vault")


def test_a_scheme_that_no_package_has_is_refused_in_a_pipeline_and_in_a_command() -> None:
    assert url_fault(URL) is None
    assert "must be a URL" in str(url_fault("safe://box.example:7000"))
    assert "holds a password" in str(url_fault("vault://me:secret@box.example"))
    with pytest.raises(TerminalError, match=r"is not the URL of a store: .* or the scheme of an installed package"):
        open_store("safe://box")
    with pytest.raises(TerminalError, match="must name a bucket or container after vault://"):
        open_store("vault://me@box")


def test_a_pipeline_keeps_everything_there(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "workspace")
    pipeline = workspace.pipeline(storage=f"{URL}/storage", sink={"type": "files", "path": f"{URL}/changes"})
    workspace.append(1, 2)
    done = icefloe("run", pipeline)
    assert (done.code, done.err) == (0, "")
    assert icefloe("verify", pipeline).code == 0
    assert "changes/batch=0/_manifest.json" in BOXES[URL]
