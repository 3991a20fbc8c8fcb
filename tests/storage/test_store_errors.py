import logging
import subprocess
import sys
import traceback
from datetime import timedelta

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.storage import clients
from icefloe.storage.location import open_store
from support.fakes.answering_server import answering_server
from support.fakes.faulty_proxy import FAULTS, faulty_proxy, is_write
from support.missing import require_linux

KEY_ID, SECRET = "AKIAVERYSECRET", "s3cr3t-s3cr3t"
DATE = "Sat, 21 Nov 2026 07:00:00 GMT"


@pytest.fixture(autouse=True)
def _short_retries(monkeypatch):
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    short = {"max_retries": 2, "retry_timeout": timedelta(seconds=5), "backoff": backoff}
    monkeypatch.setattr(clients, "_RETRIES", short)


def bucket(endpoint):
    options = {"access_key_id": KEY_ID, "secret_access_key": SECRET, "endpoint": endpoint, "region": "us-east-1"}
    return open_store("s3://lake/icefloe", options=options | {"allow_http": "true"})


def refusal(status, code="No"):
    told = f"<StringToSign>string-to-sign</StringToSign><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId><Sent>{SECRET}</Sent>"
    body = f"<Error><Code>{code}</Code>{told}</Error>".encode()
    return lambda _: (status, {"Content-Type": "application/xml"}, body)


ATTEMPTS = {
    "get": lambda store: store.get("a/key"),
    "get_ranges": lambda store: store.get_ranges("a/key", [(0, 10)]),
    "put": lambda store: store.put("a/key", b"value"),
    "create": lambda store: store.create("a/key", b"value"),
    "size": lambda store: store.size("a/key"),
    "delete": lambda store: store.delete(["a/key"]),
    "list": lambda store: list(store.list("a")),
}


@pytest.mark.parametrize("operation", ATTEMPTS)
def test_a_server_that_fails_is_tried_again_and_then_a_transient_error_without_secrets(operation, caplog):
    caplog.set_level(logging.DEBUG)
    with (
        answering_server(refusal(503)) as (endpoint, asked),
        pytest.raises(TransientError, match=r"cannot \w+ s3://lake.*try again") as caught,
    ):
        ATTEMPTS[operation](bucket(endpoint))
    assert len(asked) >= 3
    told = "".join(traceback.format_exception(caught.value)) + repr(bucket(endpoint)) + caplog.text
    assert not [secret for secret in (KEY_ID, SECRET, endpoint, "127.0.0.1") if secret in told]
    assert "\n" not in str(caught.value)


# Listing and bulk deletion tell a refusal from a failure by its text only, so theirs stays transient.
@pytest.mark.parametrize("operation", sorted(set(ATTEMPTS) - {"delete", "list"}))
def test_a_server_that_denies_is_a_terminal_error_at_once(operation):
    with (
        answering_server(refusal(403)) as (endpoint, asked),
        pytest.raises(TerminalError, match=r"cannot \w+ s3://lake/icefloe/a.* access is denied( \(No\))?; check the"),
    ):
        ATTEMPTS[operation](bucket(endpoint))
    assert len(asked) <= 2


@pytest.mark.parametrize("operation", sorted(set(ATTEMPTS) - {"size"}))
def test_a_clock_that_is_off_is_said_so(operation: str) -> None:
    with (
        answering_server(refusal(403, "RequestTimeTooSkewed")) as (endpoint, _),
        pytest.raises(TransientError, match=r"from the clock of the store .*; set this machine's clock") as caught,
    ):
        ATTEMPTS[operation](bucket(endpoint))
    assert KEY_ID not in str(caught.value)


@pytest.mark.parametrize("code", ["AccessDenied", "SlowDown"])
def test_only_a_denied_deletion_of_many_is_one_sentence_at_once(code: str) -> None:
    is_denied = code == "AccessDenied"
    answer = f"<DeleteResult><Error><Key>icefloe/a</Key><Code>{code}</Code><Message>no</Message></Error></DeleteResult>"
    with (
        answering_server(lambda _: (200, {"Content-Type": "application/xml"}, answer.encode())) as (endpoint, asked),
        pytest.raises(
            TerminalError if is_denied else TransientError,
            match="access is denied; check the credentials" if is_denied else "try again",
        ),
    ):
        bucket(endpoint).delete(["a", "b"])
    assert (len(asked) == 1) == is_denied


def test_an_answer_that_broke_off_is_transient_and_never_taken_for_the_range():
    def short(request):
        headers = {"ETag": '"1"', "Last-Modified": DATE}
        if request.command == "HEAD":
            return 200, {**headers, "Content-Length": "100"}, b""
        return 206, {**headers, "Content-Range": "bytes 0-4/100"}, b"short"

    with (
        answering_server(short) as (endpoint, _),
        pytest.raises(TransientError, match=r"s3://lake/icefloe/key broke off|cannot read s3://lake/icefloe/key"),
    ):
        bucket(endpoint).get_ranges("key", [(0, 10)])


@pytest.mark.parametrize("status", [409, 412, 500])
def test_a_create_that_is_refused_or_whose_answer_was_lost_is_decided_by_the_stored_value(status):
    def refuse(request):
        if request.command == "PUT":
            return status, {}, b""
        return 200, {"ETag": '"1"', "Last-Modified": DATE, "Content-Length": "5"}, b""

    with answering_server(refuse) as (endpoint, asked):
        assert bucket(endpoint).create("key", b"value") is False
    assert asked == ["PUT"] * (3 if status == 500 else 1) + ["HEAD"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///dev/null/x/", "Not a directory; see that"),
        ("file:///proc/icefloe", "there is no such bucket or folder; make it, or correct the URL"),
        ("file:///proc/self/stat", "Not a directory; see that"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_readable_sentence(url, reason):
    require_linux()
    reason = reason.replace("see that", "see that this folder can be written by this user and that its disk has room")
    for operation, verb in (("put", "write"), ("create", "create")):
        with pytest.raises(TerminalError) as caught:
            ATTEMPTS[operation](open_store(url))
        assert str(caught.value) == f"cannot {verb} {url.removesuffix('/')}/a/key: {reason}"
        assert (caught.value.url, caught.value.key) == (url.removesuffix("/"), "a/key")


WITHOUT_DESCRIPTORS = """
import contextlib, os, resource, sys
from icefloe.errors import TransientError
from icefloe.storage.location import open_store

store = open_store(sys.argv[1])
store.put("key", b"value")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
opened = []
with contextlib.suppress(OSError):
    while True:
        opened.append(os.open(os.devnull, os.O_RDONLY))
for call in (lambda: store.get("key"), lambda: store.put("other", b"value")):
    try:
        call()
    except TransientError as error:
        print(error)
for each in opened:
    os.close(each)
print(store.get("key"))
"""


def test_a_process_without_file_descriptors_is_asked_to_try_again(tmp_path):
    # A process of its own: in this one, a server of another test may close a socket at any moment.
    script = [sys.executable, "-c", WITHOUT_DESCRIPTORS, tmp_path.as_uri()]
    lines = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert ["Too many open files; try again" in line for line in lines] == [True, True, False]
    assert lines[2] == "b'value'"


DELETED = b"<DeleteResult><Deleted><Key>icefloe/a</Key></Deleted><Deleted><Key>icefloe/b</Key></Deleted></DeleteResult>"


def test_a_deletion_of_many_whose_answer_is_lost_is_sent_again():
    with answering_server(lambda _: (200, {}, DELETED)) as (endpoint, asked):
        port = int(endpoint.rpartition(":")[2])
        with faulty_proxy(port, FAULTS["reset"], is_struck=lambda nth: nth <= 2, concerns=is_write) as proxy:
            bucket(f"http://127.0.0.1:{proxy.port}").delete(["a", "b"])
    assert (len(proxy.struck), asked) == (2, ["POST"] * 3)
