"""A reader of a node believes no answer that it did not ask for."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import TerminalError
from icefloe.node import node_client
from icefloe.node.node_config import NodeConfig
from icefloe.node.node_folder import BUSY, MOST_MESSAGE_BYTES, NodeLostError, Piece, PieceFault, encode_rows
from icefloe.node.node_server import NodeServer
from support.nodes.members import member
from support.nodes.served_file import DATA, content, piece, read, served
from support.servers.private_authority import PrivateAuthority

OTHER_FORM = "its node answered in another form"
TOO_MUCH = "its node answered more bytes than were asked for"


class Lying(NodeServer):
    """Answers with other messages."""

    messages: Sequence[bytes] = ()

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:  # noqa: ARG002 - Flight's own signature
        return iter(self.messages)


def lied(
    config: NodeConfig, authority: PrivateAuthority, messages: Sequence[bytes], *, patience: float = 20.0
) -> list[memoryview | PieceFault]:
    """The answer to a request for five bytes."""
    with served(config, Lying) as (server, address):
        server.messages = messages
        return read(address, member(authority), piece(0, 5), patience=patience)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([encode_rows([(0, False, b"abcd")])], "its node answered 4 bytes for 0 to 5"),
        ([encode_rows([(0, False, b"abcde"), (0, False, b"f")])], TOO_MUCH),
        ([encode_rows([(0, False, b"abcde")]), encode_rows([(0, False, b"f")])], TOO_MUCH),
        ([encode_rows([(0, False, b"x" * (1 << 20))])] * 1000, TOO_MUCH),
        ([encode_rows([(7, False, b"")])], OTHER_FORM),
        ([encode_rows([(7, True, b"it is gone")])], OTHER_FORM),
        ([], "its node answered 0 bytes for 0 to 5"),
        ([b"abcde"], OTHER_FORM),
        ([b"\0"], OTHER_FORM),
        ([b"\xff" * 4096], OTHER_FORM),
        ([encode_rows([(0, False, b"abcde")]) + b"f"], OTHER_FORM),
        ([encode_rows([(0, False, b"abcde")])[:-1]], OTHER_FORM),
    ],
)
def test_an_answer_with_other_bytes_is_a_fault(
    config: NodeConfig, authority: PrivateAuthority, messages: Sequence[bytes], reason: str
) -> None:
    assert lied(config, authority, messages) == [PieceFault(reason)]


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (b"it is gone", "'it is gone'"),
        (b"a\nb\x1b[2Kc\r\0", r"'a\nb\x1b[2Kc\r\x00'"),
        ("\u202eabc\u2028\u200b".encode(), r"'\u202eabc\u2028\u200b'"),
        (b"\xff\xfe", "'\ufffd\ufffd'"),
        (b"x" * (2 << 20), f"'{'x' * 200}…'"),
    ],
)
def test_the_fault_of_a_node_is_quoted_and_cut(
    config: NodeConfig, authority: PrivateAuthority, fault: bytes, shown: str
) -> None:
    assert lied(config, authority, [encode_rows([(0, True, fault)])]) == [PieceFault(f"its node says {shown}")]


def test_a_message_that_no_node_sends_is_not_taken(config: NodeConfig, authority: PrivateAuthority) -> None:
    message = encode_rows([(0, False, b"x" * (MOST_MESSAGE_BYTES + 1))])
    with pytest.raises(NodeLostError):
        lied(config, authority, [message], patience=1.0)


class Compressing(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers with the right bytes in a `Result` of Flight, which gRPC compresses."""

    def service(self, handler_call_details: Any) -> Any:  # noqa: ARG002 - gRPC's own signature
        message = encode_rows([(0, False, DATA[:5])])
        # With a field that nobody knows, because gRPC compresses nothing that would not be shorter.
        result = bytes([0x0A, len(message)]) + message + b"\x12\x7f" + bytes(127)
        return grpc.unary_stream_rpc_method_handler(lambda *_: iter([result]))


def test_a_compressed_message_is_not_unpacked() -> None:
    gzip, none = grpc.Compression.Gzip, grpc.Compression.NoCompression
    for compression in (none, gzip):
        with ThreadPoolExecutor(1) as threads:
            server = grpc.server(threads, handlers=(Compressing(),), compression=compression)
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            try:
                [found] = read(f"127.0.0.1:{port}", NodeConfig(version=1, plain=True), piece(0, 5))
            finally:
                server.stop(None).wait()
        assert isinstance(found, PieceFault) == (compression is gzip)


@given(
    messages=st.lists(
        st.binary(min_size=1, max_size=40)
        | st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.binary(max_size=4)), max_size=4).map(encode_rows),
        max_size=4,
    )
)
def test_whatever_comes_a_piece_has_its_length_or_a_fault(messages: list[bytes]) -> None:
    pieces = [Piece("5f0c/7/0.0.a1.data", 9, start, stop) for start, stop in ((0, 2), (2, 2), (4, 9))]
    try:
        found = node_client._pieces(map(Answered, messages), pieces)
    except ValueError:
        return  # by which the reader takes all of them for faults
    assert found is not None
    for each, answer in zip(pieces, found, strict=True):
        assert isinstance(answer, PieceFault) or len(answer) == each.stop - each.start


class Answered:
    """A message as Flight gives it."""

    def __init__(self, body: bytes) -> None:
        self.body = body


def test_a_node_that_answers_only_others_is_lost_as_busy(
    config: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_client, "_BUSY_TIMES", 0)
    with pytest.raises(NodeLostError, match="raise requests_at_once") as lost:
        lied(config, authority, [BUSY])
    assert lost.value.is_busy


def test_a_certificate_that_is_gone_for_a_moment_loses_no_fetch(
    node: str, authority: PrivateAuthority, tmp_path: Path
) -> None:
    own, known = tmp_path / "own.pem", member(authority)
    assert known.key is not None
    renewed = replace(known, certificate=own, key=own)
    back = threading.Timer(0.3, own.write_bytes, [known.key.read_bytes()])
    back.start()
    [found] = read(node, renewed, piece(0, 5))
    back.join()
    assert content(found) == DATA[:5]
    own.unlink()
    with pytest.raises(TerminalError, match="a certificate of this node cannot be read"):
        read(node, renewed, piece(0, 5), patience=0.5)


def test_a_node_that_answers_a_byte_now_and_then_is_lost(
    config: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    def trickle() -> Iterator[bytes]:
        while not is_over.wait(0.05):
            yield encode_rows([(0, False, b"x")])

    monkeypatch.setattr(Lying, "do_action", lambda *_: trickle())
    monkeypatch.setattr(node_client, "_SLOWEST_BYTES_PER_SECOND", len(DATA))
    with served(config, Lying) as (_, address):
        try:
            with pytest.raises(NodeLostError) as lost:
                read(address, member(authority), piece(0, len(DATA)), patience=0.0)
        finally:
            is_over.set()
    assert not lost.value.is_busy
