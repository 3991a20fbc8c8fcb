from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.location import CLOCK_FOLDER, open_store, probe, store_time
from icefloe.storage.store import Store
from support.fakes.stores import Fault, FaultyStore, ForgetfulStore, RacyStore, WrappingStore
from support.servers.table_server import Table

STORES: dict[str, Callable[[Path, Table], Store]] = {
    "disk": lambda folder, _: open_store(folder.as_uri()),
    "memory": lambda _, __: open_store("memory://probed"),
    "table": lambda _, table: open_store("dynamodb://icefloe/probed", options=table.access),
    "coordinated": lambda _, table: open_store("memory://coordinated", options=table.options()),
}


@pytest.mark.parametrize("name", STORES)
def test_of_sixteen_creates_at_once_one_wins_in_every_store(tmp_path, table, name):
    created: list[bytes] = []

    class Noting(WrappingStore):
        def create(self, key, data):
            created.append(data)
            return super().create(key, data)

    store = Noting(STORES[name](tmp_path, table))
    for _ in range(5):
        probe(store)
        assert list(store.inner.list("")) == []
    assert len(created) == 5 * 18
    created.clear()
    probe(store, is_new=False)
    assert len(created) == 2


def test_a_store_that_looks_before_it_writes_is_refused():
    inner = open_store("memory://racy")
    racy = RacyStore(inner)
    with pytest.raises(TerminalError, match="memory://racy ignores create-if-absent"):
        probe(racy)
    assert list(inner.list("")) == []


def test_creates_that_won_without_knowing_are_no_reason_to_refuse_a_store():
    class Resending(WrappingStore):
        def create(self, key, data):
            return super().create(key, data) and False

    probe(Resending(open_store("memory://resending")))


def test_a_store_that_ignores_create_if_absent_is_refused_by_its_url():
    inner = open_store("memory://forgetful")
    with pytest.raises(TerminalError, match=r"memory://forgetful ignores create-if-absent") as caught:
        probe(ForgetfulStore(inner))
    assert caught.value.url == "memory://forgetful"
    assert list(inner.list("")) == []


def test_a_create_whose_answer_was_lost_leaves_nothing():
    inner = open_store("memory://lost")
    with pytest.raises(TransientError):
        probe(FaultyStore(inner, Fault(operation="create", nth=1, is_after=True)))
    assert list(inner.list("")) == []


def test_a_place_where_nothing_can_be_deleted_is_refused():
    denied = TerminalError("cannot delete: access is denied")
    with pytest.raises(TerminalError, match="cannot delete"):
        probe(FaultyStore(open_store("memory://undeletable"), Fault(operation="delete", error=denied)))


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
