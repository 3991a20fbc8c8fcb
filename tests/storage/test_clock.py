from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from icefloe.errors import TransientError
from icefloe.storage.location import open_store
from icefloe.storage.probe import CLOCK_FOLDER, store_time
from support.fakes.stores import Fault, FaultyStore, WrappingStore


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}" if request.param == "file" else f"memory://clock-{tmp_path.name}"


def test_the_time_of_a_store_is_now_and_leaves_nothing_behind(url: str) -> None:
    store = open_store(url)
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert before <= store_time(store) <= datetime.now(UTC) + timedelta(seconds=1)
    assert list(store.list("")) == []


def test_the_remains_of_a_killed_look_at_the_clock_do_not_count(url: str) -> None:
    store = open_store(url)
    with pytest.raises(SystemExit):
        store_time(FaultyStore(store, Fault(operation="delete", error=SystemExit())))
    [left] = store.list("")
    assert left.key.startswith(f"{CLOCK_FOLDER}/")
    assert store_time(store) >= left.modified


def test_a_listing_that_lags_behind_is_tried_again() -> None:
    class Stale(WrappingStore):
        def list(self, prefix: str):  # noqa: ARG002 - nothing is ever there
            return iter(())

    with pytest.raises(TransientError, match="does not list an object that was just written to it; try again"):
        store_time(Stale(open_store("memory://stale-clock")))
