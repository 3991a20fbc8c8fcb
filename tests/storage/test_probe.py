from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.location import open_store
from icefloe.storage.probe import probe
from icefloe.storage.store import Store
from support.fakes.stores import Fault, FaultyStore, ForgetfulStore, RacyStore, WrappingStore
from support.servers.table_server import Table, table_server


@pytest.fixture
def table() -> Iterator[Table]:
    with table_server() as served:
        yield served


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


def test_a_good_place_passes_and_nothing_is_left(tmp_path):
    store = open_store((tmp_path / "new").as_uri())
    probe(store)
    probe(store.child("deeper"))
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_store_that_ignores_create_if_absent_is_refused_by_its_url():
    inner = open_store("memory://forgetful")
    with pytest.raises(TerminalError, match=r"memory://forgetful ignores create-if-absent") as caught:
        probe(ForgetfulStore(inner))
    assert caught.value.url == "memory://forgetful"
    assert list(inner.list("")) == []


def test_a_store_that_ignores_create_if_absent_is_refused_whether_it_deletes_or_not():
    undeletable = FaultyStore(
        open_store("memory://careless"), Fault(operation="delete", error=TransientError("no answer"))
    )
    with pytest.raises(TerminalError, match="memory://careless ignores create-if-absent"):
        probe(ForgetfulStore(undeletable))


def test_a_store_that_hides_what_it_did_is_refused_too():
    class Lying(ForgetfulStore):
        def create(self, key, data):
            super().create(key, data)
            return data == b"first"

    with pytest.raises(TerminalError, match="ignores create-if-absent"):
        probe(Lying(open_store("memory://lying")))


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TerminalError, match=rf"cannot create file://{tmp_path}/file/x/_probe-"):
        probe(open_store((tmp_path / "file" / "x").as_uri()))


def test_a_store_that_fails_midway_is_left_clean():
    inner = open_store("memory://midway")
    with pytest.raises(TransientError):
        probe(FaultyStore(inner, Fault(operation="create", nth=2)))
    assert list(inner.list("")) == []


@pytest.mark.parametrize("operation", ["create", "get"])
def test_a_failing_clean_up_does_not_hide_why_the_probe_failed(operation):
    first = TransientError("the first fault")
    store = FaultyStore(
        open_store("memory://unclean"),
        Fault(operation=operation, error=first),
        Fault(operation="delete", error=TerminalError("the clean-up failed too")),
    )
    with pytest.raises(TransientError) as caught:
        probe(store)
    assert caught.value is first


def test_a_create_whose_answer_was_lost_leaves_nothing():
    inner = open_store("memory://lost")
    with pytest.raises(TransientError):
        probe(FaultyStore(inner, Fault(operation="create", nth=1, is_after=True)))
    assert list(inner.list("")) == []


def test_a_place_where_nothing_can_be_deleted_is_refused():
    denied = TerminalError("cannot delete: access is denied")
    with pytest.raises(TerminalError, match="cannot delete"):
        probe(FaultyStore(open_store("memory://undeletable"), Fault(operation="delete", error=denied)))
