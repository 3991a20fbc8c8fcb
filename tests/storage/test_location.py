import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import certifi
import pytest
from obstore import store as stores

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store, plain_endpoint
from icefloe.storage.options import usable_options
from icefloe.storage.store_errors import StorePlace


@pytest.mark.parametrize(
    "name", ["plain", "with space", "hash#tag", "end #1", "100%", "a%20b", "ünï 日本", "q?x=1&y", "plus+"]
)
def test_a_local_folder_of_any_name_is_opened_by_its_uri(tmp_path, name):
    open_store((tmp_path / name).as_uri()).put("key", b"value")
    assert (tmp_path / name / "key").read_bytes() == b"value"


def test_superfluous_slashes_and_localhost_mean_the_same_place(tmp_path):
    open_store(f"file://{tmp_path}/a").put("key", b"value")
    for url in (f"file://{tmp_path}//a/", f"file:///{tmp_path}/a", f"file://localhost{tmp_path}/a"):
        assert open_store(url).get("key") == b"value"
        assert open_store(url).url == f"file://{tmp_path}/a"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/var/icefloe",
        "file:/var/icefloe",
        "file://",
        "file://var/icefloe",
        "file:///var/../etc",
        "file:///a\nb",
        "s3://",
        "s3:///path",
        "s3a://bucket",
        "memory://",
        "http://host/x",
        "dynamodb://me:pw@table",
        "s3://bucket//x",
    ],
)
def test_a_url_that_is_none_is_refused_in_one_sentence_that_quotes_it(url):
    with pytest.raises(TerminalError) as caught:
        open_store(url)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value) or "write file:///" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["s3://key:hunter2@bucket/x", "s3://hunter2@bucket", "memory://a:hunter2/x", "x://u:hunter2@h"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(TerminalError) as caught:
        open_store(url)
    if "@" in url:
        assert "hunter2" not in str(caught.value)


def test_memory_is_shared_by_name_within_the_process():
    name = uuid.uuid4().hex
    open_store(f"memory://{name}/a").put("key", b"value")
    assert open_store(f"memory://{name}").get("a/key") == b"value"
    assert open_store(f"memory://{name}x").size("a/key") is None
    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(lambda _: open_store(f"memory://{name}-2").create("key", b""), range(20)))
    assert won.count(True) == 1


@pytest.fixture
def opened(monkeypatch):
    """The arguments of obstore's from_url, which is called as well."""
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    calls = []
    from_url = stores.from_url

    def spy(url, **kwargs):
        calls.append((url, kwargs))
        return from_url(url, **kwargs)

    monkeypatch.setattr(stores, "from_url", spy)
    return calls


TIMEOUTS = {"connect_timeout": "5000ms", "timeout": "20000ms"}
OPTIONS = {"aws_access_key_id": "AKIAVERYSECRET", "secret_access_key": "s3cr3t-s3cr3t", "region": "us-east-1"}


def test_the_options_of_the_client_are_kept_apart(opened):
    open_store("s3://lake", options={**OPTIONS, "AWS_ALLOW_HTTP": "true", "timeout": "60s"})
    [(_, kwargs)] = opened
    assert kwargs["client_options"] == {**TIMEOUTS, "allow_http": "true", "timeout": "60s"}
    assert set(kwargs["config"]) == {"access_key_id", "secret_access_key", "region"}


def test_an_endpoint_without_tls_needs_a_key_of_its_own(opened, monkeypatch):
    plain = {**OPTIONS, "endpoint": "http://127.0.0.1:9000/path"}
    for options, variable in ((plain, "UNRELATED"), (OPTIONS, "AWS_ENDPOINT_URL"), (OPTIONS, "AWS_ENDPOINT_URL_S3")):
        with monkeypatch.context() as environment:
            environment.setenv(variable, "HTTP://127.0.0.1:9000/path")
            with pytest.raises(TerminalError, match=r"the endpoint http://127\.0\.0\.1:9000 of s3://lake is not encr.*"
                               r"set allow_http to true.*or AWS_ALLOW_HTTP"):  # fmt: skip
                open_store("s3://lake/x", options=options)
            assert plain_endpoint("s3://lake/x", options) == "http://127.0.0.1:9000"
    assert opened == []
    open_store("s3://lake", options={**plain, "allow_http": "TRUE"})
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    open_store("s3://lake", options=plain)
    assert [each[1]["client_options"]["allow_http"] for each in opened] == ["TRUE", "true"]


def test_an_encrypted_endpoint_and_a_vendors_own_are_not_plain(monkeypatch):
    assert plain_endpoint("s3://lake", {**OPTIONS, "endpoint": "https://s3.example.com"}) == ""
    assert plain_endpoint("s3://lake", OPTIONS) == plain_endpoint("file:///data", {}) == ""
    # The options' own endpoint counts, whatever the environment says.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert plain_endpoint("s3://lake", {**OPTIONS, "endpoint": "https://s3.example.com"}) == ""


def test_the_certificates_of_an_authority_are_a_text_or_a_file(opened, monkeypatch, tmp_path):
    pem = Path(certifi.where()).read_text().partition("-----END")[0] + "-----END CERTIFICATE-----\n"
    bundle = tmp_path / "authority.pem"
    bundle.write_text(pem)
    open_store("s3://lake", options={**OPTIONS, "root_certificate": pem})
    open_store("s3://lake", options={**OPTIONS, "root_certificate": str(bundle)})
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    open_store("s3://lake", options=OPTIONS)
    open_store("gs://lake")
    assert [each[1]["client_options"].get("root_certificate") for each in opened] == [pem, pem, pem, None]
    for wrong in (str(tmp_path), "nowhere.pem", "no certificate"):
        with pytest.raises(TerminalError, match="names no file of certificates on this machine: write the path of"):
            open_store("s3://lake", options={**OPTIONS, "root_certificate": wrong})


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("s3://lake", {"bogus_key": "s3cr3t-s3cr3t"}, "bogus_key"),
        ("s3://lake", {"conditional_put": "s3cr3t-s3cr3t"}, "S3PutConditional"),
        ("s3://lake", {"timeout": "s3cr3t-s3cr3t"}, "Duration"),
        ("abfs://box", {"account_key": "c2VjcmV0"}, "Account"),
        ("gs://lake", {"service_account_key": "s3cr3t-s3cr3t"}, "service account"),
    ],
)
def test_options_a_store_does_not_know_are_named_but_never_their_values(url, options, named):
    with pytest.raises(TerminalError, match=rf"cannot open {url}: .*{named}.*correct the URL or the options") as caught:
        open_store(url, options=options)
    assert not [value for value in options.values() if value in str(caught.value)]
    assert caught.value.__cause__ is None
    assert "\n" not in str(caught.value)


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


class PanicException(BaseException):
    """As PyO3 raises them."""


def test_a_panic_of_obstore_is_an_error_of_ours() -> None:
    place = StorePlace(url="s3://lake", is_local=False)
    sentence = "cannot read s3://lake/a: the client of this store gave up"
    with pytest.raises(TerminalError, match=sentence) as caught, place.faults("read", "a"):
        raise PanicException("called `Result::unwrap()` on an `Err` value: InvalidHeaderValue")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
