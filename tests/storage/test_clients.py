import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from icefloe.errors import TransientError
from icefloe.patience import Silence, answer_within, silence_of
from icefloe.storage import clients
from icefloe.storage.location import open_store, probe
from icefloe.storage.store import Store
from support.fakes.peak_memory import anonymous_kib
from support.fakes.unanswering import drip_headers, keep_silent, serving

LARGE_BYTES = 2**20 + 2**19
PIECES = 60
PAUSE_SECONDS = 0.1


@pytest.fixture(autouse=True)
def _no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence is of a place and its certificates, and some machines name some."""
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)


def store_at(port: int, *, patience: float) -> Store:
    options = {
        "endpoint": f"http://127.0.0.1:{port}", "access_key_id": "a", "secret_access_key": "s", "region": "x",
        "allow_http": "true",
    }  # fmt: skip
    return open_store("s3://lake/icefloe", options=options, patience=patience)


def silence_at(port: int) -> Silence:
    return silence_of("s3://lake", f"http://127.0.0.1:{port}", "")


CALLS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("key"),
    "size": lambda store: store.size("key"),
    "get_ranges": lambda store: store.get_ranges("key", [(0, 10)]),
    "put": lambda store: store.put("key", b"value"),
    "put large": lambda store: store.put("key", bytes(LARGE_BYTES)),
    "create": lambda store: store.create("key", b"value"),
    "delete": lambda store: store.delete(["key"]),
    "list": lambda store: list(store.list("")),
    "probe": probe,
}


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("behaviour", [keep_silent, drip_headers])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_does_not_answer_is_given_up(behaviour: Callable[..., None], call: Callable[[Store], object]):
    with serving(behaviour) as port, pytest.raises(TransientError, match=r"cannot \w+ s3://lake"):
        # A call that hangs inside obstore cannot be interrupted; one without our bounds ends after 30 seconds at best.
        answer_within(20, lambda: call(store_at(port, patience=0.9)))


def answer_slowly(connection: socket.socket, left: threading.Event) -> None:
    """Sends a value piece by piece, for longer than the patience of who asks, and never silent for long."""
    while asked := connection.recv(65536).decode():
        lines = dict(line.lower().split(": ", 1) for line in asked.splitlines()[1:] if ": " in line)
        status, extra, size_bytes = "200 OK", "", LARGE_BYTES
        if "range" in lines:
            start, stop = (int(part) for part in lines["range"].removeprefix("bytes=").split("-"))
            status, size_bytes = "206 Partial Content", stop - start + 1
            extra = f"Content-Range: bytes {start}-{stop}/{LARGE_BYTES}\r\n"
        head = f'HTTP/1.1 {status}\r\nContent-Length: {size_bytes}\r\nETag: "x"\r\n{extra}'
        connection.sendall(f"{head}Last-Modified: Sat, 21 Nov 2026 07:00:00 GMT\r\n\r\n".encode())
        for _ in range(PIECES):
            connection.sendall(bytes(size_bytes // PIECES))
            left.wait(PAUSE_SECONDS)
        connection.sendall(bytes(size_bytes % PIECES))


def take_slowly(connection: socket.socket, left: threading.Event) -> None:
    """Takes an upload of 48 pieces in at least 1.2 seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
    take(connection, lambda: left.wait(PAUSE_SECONDS / 4), piece_bytes=2**15)


def take(connection: socket.socket, pause: Callable[[], object], *, piece_bytes: int) -> None:
    """Takes an upload in pieces, with a pause before each, and answers when it has all of it."""
    asked = b""
    while b"\r\n\r\n" not in asked:
        asked += connection.recv(65536)
    head, _, body = asked.partition(b"\r\n\r\n")
    [size_bytes] = [int(line.split(b": ")[1]) for line in head.lower().splitlines() if b"content-length" in line]
    taken = len(body)
    while taken < size_bytes:
        pause()
        taken += len(connection.recv(piece_bytes))
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: "x"\r\n\r\n')


@pytest.mark.timeout(60)
def test_a_value_that_goes_in_one_request_gets_time_by_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "part"
    file.write_bytes(bytes(LARGE_BYTES))
    monkeypatch.setattr(clients, "_UPLOAD_BYTES", LARGE_BYTES // 8)
    with serving(take_slowly) as port:
        assert store_at(port, patience=0.6).create("key", file)


@pytest.mark.timeout(120)
def test_a_large_file_is_created_without_memory_for_it(tmp_path: Path) -> None:
    file = tmp_path / "part"
    with file.open("wb") as large:
        large.truncate(200 * 2**20)
    held: list[int] = []

    def pause() -> None:
        held.append(anonymous_kib())

    with serving(lambda connection, _: take(connection, pause, piece_bytes=2**20)) as port:
        before = anonymous_kib()
        assert store_at(port, patience=60).create("key", file)
    assert held
    assert max(held) - before < 50 * 2**10


@pytest.mark.timeout(60)
def test_after_a_store_was_waited_for_in_vain_the_next_request_is_sent_once() -> None:
    asked: list[bytes] = []

    def count(connection: socket.socket, left: threading.Event) -> None:
        asked.append(connection.recv(65536))
        left.wait()

    with serving(count) as port:
        tries: list[int] = []
        for _ in range(2):
            with pytest.raises(TransientError):
                store_at(port, patience=0.9).size("key")
            tries.append(len(asked) - sum(tries))
    assert tries[0] > 1
    assert tries[1] == 1


@pytest.fixture
def _hasty_brief_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends a transfer soon after a silence, so that a test sees it without waiting."""
    monkeypatch.setattr(clients, "brief_seconds", lambda _: 0.3)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.usefixtures("_hasty_brief_requests")
def test_a_large_value_that_could_not_be_written_does_not_hurry_the_next_requests() -> None:
    is_stuck = threading.Event()
    is_stuck.set()

    def serve(connection: socket.socket, left: threading.Event) -> None:
        (keep_silent if is_stuck.is_set() else take_slowly)(connection, left)

    with serving(serve) as port:
        store = store_at(port, patience=1.8)
        with pytest.raises(TransientError):
            store.put("key", bytes(LARGE_BYTES))
        assert not silence_at(port).is_recent
        is_stuck.clear()
        assert store.create("key", bytes(LARGE_BYTES))


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.usefixtures("_hasty_brief_requests")
def test_after_a_silence_large_values_still_get_their_time() -> None:
    def serve(connection: socket.socket, left: threading.Event) -> None:
        (take_slowly if connection.recv(3, socket.MSG_PEEK) == b"PUT" else answer_slowly)(connection, left)

    for call in (
        lambda store: store.get("key"),
        lambda store: store.get_ranges("key", [(0, LARGE_BYTES)]),
        lambda store: store.put("key", bytes(LARGE_BYTES)),
        lambda store: store.create("key", bytes(LARGE_BYTES)),
    ):
        with serving(serve) as port:
            store = store_at(port, patience=1.8)
            silence_at(port).begin(60)
            call(store)
