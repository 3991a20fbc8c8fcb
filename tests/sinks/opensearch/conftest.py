import pytest

from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.opensearch import cluster


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.3")
    monkeypatch.setattr(cluster, "_FIRST_PAUSE_SECONDS", 0.001)
