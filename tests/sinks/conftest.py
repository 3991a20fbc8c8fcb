import pytest

from icefloe.sinks import change_files
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.location import open_store


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "changes"


@pytest.fixture
def store(folder):
    return open_store(folder.as_uri())


@pytest.fixture
def sink(store):
    return ChangeFiles(store)


@pytest.fixture
def small_groups(monkeypatch):
    """Row groups of 64 KiB, so that little data rolls over many files."""
    monkeypatch.setattr(change_files, "GROUP_BYTES", 1 << 16)
