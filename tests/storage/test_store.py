import pickle

import pytest

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store
from icefloe.storage.store import KeyMissingError


def test_a_missing_key_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(KeyMissingError.of("file:///a", "b%")))
    assert (str(error), error.url, error.key) == ("there is no object file:///a/b%25", "file:///a", "b%")


def test_the_url_of_a_child_opens_the_same_place(tmp_path):
    child = open_store(tmp_path.as_uri()).child("a b%41").child("c#d")
    child.put("key", b"value")
    assert open_store(child.url).get("key") == b"value"
    assert (tmp_path / "a b%41" / "c#d" / "key").read_bytes() == b"value"


def test_a_child_needs_a_folder():
    with pytest.raises(TerminalError, match="cannot be the key"):
        open_store("memory://x").child("")
