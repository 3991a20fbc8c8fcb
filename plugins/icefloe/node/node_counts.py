"""Counts of a node: for Prometheus and a health check by HTTP, and for StatsD."""

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from icefloe.errors import TransientError, one_line
from icefloe.node.node_config import NodeConfig

_OUTCOMES: Final = ("served", "busy", "refused", "unfinished", "deleted")
"""Of requests: answered; asked to come again; not understood; given up by the reader; the end of a batch."""
_OTHERS: Final[Mapping[str, str]] = {
    "bytes": "Bytes sent to readers.",
    "missing_pieces": "Pieces of map outputs that could not be read.",
    "expired_files": "Files deleted by their age.",
}
_MOST_SECONDS_WITHOUT_LOOK: Final = 30.0
_SECONDS: Final = 5.0
"""For a request of the status server and its answer."""
_AT_ONCE: Final = 8
"""Requests of the status server, each with a thread and an open file; twice as many while some are being ended."""


class NodeCounts:
    """Totals since the node was started. Threads may use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = Counter(dict.fromkeys((*(f"requests.{each}" for each in _OUTCOMES), *_OTHERS), 0))
        self._sent = Counter[str]()
        self.looked_at = time.monotonic()  # when the node last saw to its connections and certificates

    def add(self, name: str, count: int = 1) -> None:
        """Adds to a total: ``requests.OUTCOME`` or another of the names above."""
        with self._lock:
            self._totals[name] += count

    def prometheus(self) -> str:
        """The totals in Prometheus' text format.

        >>> print(NodeCounts().prometheus().splitlines()[2])
        icefloe_node_requests_total{outcome="served"} 0
        """
        with self._lock:
            found = dict(self._totals)
        name = "icefloe_node_requests_total"
        lines = [f"# HELP {name} Requests of readers and cleanups.", f"# TYPE {name} counter"]
        lines += [f'{name}{{outcome="{each}"}} {found[f"requests.{each}"]}' for each in _OUTCOMES]
        for each, help_text in _OTHERS.items():
            name = f"icefloe_node_{each}_total"
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} counter", f"{name} {found[each]}"]
        return "\n".join(lines) + "\n"

    def send(self, config: NodeConfig) -> None:
        """Sends what was added since the last call to StatsD, if the configuration names one."""
        if config.statsd is None:
            return
        host, _, port = config.statsd.rpartition(":")
        # Dots and colons of an address would part a metric's name.
        node = re.sub("[^0-9A-Za-z-]", "_", config.address or "")
        with self._lock:
            totals = self._totals.copy()
        added = totals - self._sent
        lines = [f"icefloe.node.{node}.{name}:{count}|c" for name, count in added.items()]
        if lines:
            family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as statsd:
                statsd.sendto("\n".join(lines).encode(), address)
            self._sent = totals


@contextmanager
def status_served(config: NodeConfig, counts: NodeCounts) -> Iterator[None]:
    """Answers ``/metrics`` and ``/health`` until the block ends, if the configuration has an address for them."""
    if config.status is None:
        yield
        return

    class Status(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", counts.prometheus())
            elif self.path == "/health":
                is_well = time.monotonic() - counts.looked_at < _MOST_SECONDS_WITHOUT_LOOK
                found = {"status": "ok" if is_well else "stuck", "is_draining": config.kept_folder.is_draining}
                self._answer(200 if is_well else 503, "application/json", json.dumps(found) + "\n")
            else:
                self._answer(404, "text/plain", "this node answers /metrics and /health\n")

        def _answer(self, code: int, kind: str, text: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def version_string(self) -> str:
            return "icefloe"

        def log_message(self, *_: object) -> None:
            """Nothing: it is asked every few seconds."""

    host, _, port = config.status.rpartition(":")
    try:
        server = _StatusServer((host.strip("[]"), int(port)), Status)
    except OSError as cause:
        raise TransientError(
            f"the node cannot answer on its status address {config.status}: {one_line(cause)}; end the program that "
            "has the port, or correct `status` in the configuration"
        ) from cause
    with server:
        threading.Thread(target=server.serve_forever, name="icefloe-node-status", daemon=True).start()
        yield
        server.shutdown()


class _StatusServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], kind: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._until: dict[Any, float] = {}  # end of the time of each connection, the oldest first
        super().__init__(address, kind)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Ends the oldest connections if there are too many."""
        if len(self._until) >= 2 * _AT_ONCE:
            self.shutdown_request(request)
            return
        self._until[request] = time.monotonic() + _SECONDS
        self._end(list(self._until)[:-_AT_ONCE])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Gives its place to another."""
        self._until.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """A byte now and then gets nobody more time."""
        now = time.monotonic()
        self._end([each for each, until in self._until.copy().items() if until < now])

    def _end(self, requests: list[Any]) -> None:
        for each in requests:
            with suppress(OSError):  # its thread has closed it
                each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Nothing: whoever asked has gone."""
