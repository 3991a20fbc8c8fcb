import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import certifi
import pytest
from obstore import store as stores

from icefloe.errors import TerminalError
from icefloe.storage.location import open_store, plain_endpoint
from support.fakes.answering_server import answering_server


@pytest.mark.parametrize(
    "name", ["plain", "with space", "hash#tag", "end #1", "100%", "a%20b", "ünï 日本", "q?x=1&y", "plus+"]
)
def test_a_local_folder_of_any_name_is_opened_by_its_uri(tmp_path, name):
    open_store((tmp_path / name).as_uri()).put("key", b"value")
    assert (tmp_path / name / "key").read_bytes() == b"value"


@pytest.mark.parametrize("name", ["with space", "hash#tag", "ünï 日本", "q?x=1&y", "plus+", "100%"])
def test_a_local_folder_may_be_written_as_it_is(tmp_path, name):
    store = open_store(f"file://{tmp_path}/{name}/")
    store.put("key", b"value")
    assert (tmp_path / name / "key").read_bytes() == b"value"
    assert open_store(store.url).get("key") == b"value"


def test_superfluous_slashes_and_localhost_mean_the_same_place(tmp_path):
    open_store(f"file://{tmp_path}/a").put("key", b"value")
    for url in (f"file://{tmp_path}//a/", f"file:///{tmp_path}/a", f"file://localhost{tmp_path}/a"):
        assert open_store(url).get("key") == b"value"
        assert open_store(url).url == f"file://{tmp_path}/a"


def test_the_whole_disk_is_a_place(tmp_path):
    (tmp_path / "key").write_bytes(b"value")
    assert open_store("file:///").get(f"{tmp_path}/key".removeprefix("/")) == b"value"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/var/icefloe",
        "var/icefloe",
        "file:/var/icefloe",
        "file:var",
        "file://",
        "file://var/icefloe",
        "file://./icefloe",
        "file:///var/../etc",
        "file:///var/./x",
        "C:\\icefloe",
        "s3:bucket",
        "s3://",
        "s3:///path",
        "s3a://bucket",
        "gs://",
        "memory://",
        "memory:///x",
        "http://host/x",
        "dynamodb://",
        "dynamodb://me:pw@table",
        "s3://bucket//x",
        "s3://bucket/../x",
        "abfs://",
        " s3://bucket",
        "file:///a\nb",
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


def test_a_bucket_is_opened_with_the_options_and_a_budget_of_retries(opened):
    store = open_store("s3://lake/a b/c%20#?", options=OPTIONS)
    [(url, kwargs)] = opened
    assert url == "s3://lake"
    assert kwargs["config"] == {
        "access_key_id": "AKIAVERYSECRET",
        "secret_access_key": "s3cr3t-s3cr3t",
        "region": "us-east-1",
    }
    assert kwargs["retry_config"]["max_retries"] > 0
    assert kwargs["retry_config"]["retry_timeout"].total_seconds() < 300
    assert store.url == "s3://lake/a b/c%20#?"


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
                               r"set allow_http to true.*or AWS_ALLOW_HTTP") as caught:  # fmt: skip
                open_store("s3://lake/x", options=options)
            assert caught.value.option == "allow_http"
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
    ("url", "options"),
    [
        ("gs://lake/x", {}),
        ("abfss://box@account.dfs.core.windows.net/x", {"account_key": "c2VjcmV0"}),
        ("abfs://box@account.dfs.core.windows.net", {"sas_token": "sv=1&sig=abc"}),
        ("abfs://box/x", {"account_name": "account", "account_key": "c2VjcmV0"}),
    ],
)
def test_the_other_clouds_are_opened_too(opened, url, options):
    assert open_store(url, options=options).url == url
    assert opened[0][1]["retry_config"]["max_retries"] > 0


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


def test_options_never_show(opened):
    store = open_store("s3://lake/x", options=OPTIONS)
    for text in (repr(store), str(store), store.url):
        assert not [value for value in OPTIONS.values() if value in text]


def test_without_options_the_environment_says_where_s3_is_also_without_encryption(monkeypatch):
    with answering_server(lambda _: (200, {"ETag": '"0"'}, b"")) as (endpoint, asked):
        settings = {"ENDPOINT_URL": endpoint, "ALLOW_HTTP": "true", "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "key"}
        for name, value in settings.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        open_store("s3://lake").put("key", b"value")
    assert asked == ["PUT"]
