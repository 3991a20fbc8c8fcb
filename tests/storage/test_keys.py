import pytest

from icefloe.errors import TerminalError
from icefloe.storage.keys import check_key, join_url


@pytest.mark.parametrize("key", ["a", "a/b", "a#b", "a#1/b", "a.#", "...", ".hidden", "a b/ü%41", "a#1x"])
def test_a_key_that_every_store_can_hold_passes(key):
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a\x00", "a\n", "a#1", "b/a#12"])
def test_a_key_that_some_store_cannot_hold_is_refused_and_quoted(key):
    with pytest.raises(TerminalError) as caught:
        check_key(key)
    assert repr(key) in str(caught.value)
    assert caught.value.key == key


def test_a_percent_sign_is_encoded_in_file_urls_only():
    assert join_url("file:///a", "b%20/c d") == "file:///a/b%2520/c d"
    assert join_url("s3://a", "b%20/c d") == "s3://a/b%20/c d"
    assert join_url("file:///", "b") == "file:///b"
    assert join_url("s3://a", "") == "s3://a"
