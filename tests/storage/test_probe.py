import pytest

from fakes.stores import Fault, FaultyStore, ForgetfulStore
from icefloe.errors import TerminalError, TransientError
from icefloe.storage.location import open_store
from icefloe.storage.probe import probe


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


def test_a_store_that_hides_what_it_did_is_refused_too():
    class Lying(ForgetfulStore):
        def create(self, key, data):
            super().create(key, data)
            return data == b"first"

    with pytest.raises(TerminalError, match="ignores create-if-absent"):
        probe(Lying(open_store("memory://lying")))


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TerminalError, match=rf"cannot create file://{tmp_path}/file/x/probe-"):
        probe(open_store((tmp_path / "file" / "x").as_uri()))


def test_a_store_that_fails_midway_is_left_clean():
    inner = open_store("memory://midway")
    with pytest.raises(TransientError):
        probe(FaultyStore(inner, Fault(operation="create", nth=2)))
    assert list(inner.list("")) == []
