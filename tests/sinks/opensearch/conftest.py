import pytest

from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.opensearch import cluster as cluster_module
from support.sinks.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.2")
    monkeypatch.setattr(cluster_module, "_FIRST_PAUSE_SECONDS", 0.001)
