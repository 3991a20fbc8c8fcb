import pytest

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store
from icefloe.storage.options import usable_options
from icefloe.storage.store_errors import StorePlace

SECRET = "xhq8v2-Lk7TnWz3RbYd5"


@pytest.mark.parametrize("key", ["access_key_id", "secret_access_key", "session_token", "AWS_SESSION_TOKEN", "region"])
def test_a_line_break_in_the_middle_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(
        TerminalError, match=f"option '{key.lower().removeprefix('aws_')}' of this store holds"
    ) as caught:
        open_store("s3://lake", options={key: f"{SECRET}\nx"})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["access_key_id", "secret_access_key", "session_token", "endpoint"])
def test_a_line_break_at_the_end_is_left_out(key: str) -> None:
    value = "http://127.0.0.1:9000" if key == "endpoint" else SECRET
    assert usable_options("s3", {key: f"{value}\r\n"}, {}) == {key: value}


@pytest.mark.parametrize(
    "endpoint", [SECRET, "127.0.0.1:9000", f"https://me:{SECRET}@s3", f"https://s3?t={SECRET}", "https://"]
)
def test_an_endpoint_that_is_no_address_is_refused_without_showing_it(endpoint: str) -> None:
    with pytest.raises(TerminalError, match="option 'endpoint' of this store is no address of a service") as caught:
        open_store("s3://lake", options={"endpoint": endpoint})
    assert SECRET not in str(caught.value)


def test_variables_that_obstore_reads_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"{SECRET}\nx")
    with pytest.raises(TerminalError, match="the variable AWS_SESSION_TOKEN holds a line break"):
        open_store("s3://lake")
    open_store("s3://lake", options={"session_token": "another"})
    assert usable_options("gs", {}, {"AWS_SESSION_TOKEN": "x\ny"}) == {}


def test_variables_that_end_in_a_line_break_become_options() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "AKIA\n", "AWS_REGION": "us-east-1", "AWS_PAGER": "less\n"}
    assert usable_options("s3", {}, environ) == {"access_key_id": "AKIA"}


def test_a_key_of_several_lines_stays_whole() -> None:
    key = '{"private_key": "-----BEGIN\n-----END"}\n'
    assert usable_options("gs", {"service_account_key": key}, {}) == {"service_account_key": key}


class PanicException(BaseException):
    """As PyO3 raises them."""


def test_a_panic_of_obstore_is_an_error_of_ours() -> None:
    place = StorePlace(url="s3://lake", is_local=False)
    sentence = "cannot read s3://lake/a: the client of this store gave up"
    with pytest.raises(TerminalError, match=sentence) as caught, place.faults("read", "a"):
        raise PanicException("called `Result::unwrap()` on an `Err` value: InvalidHeaderValue")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
