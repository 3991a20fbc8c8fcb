"""A StatsD server that adds up counters."""

import socket
from collections import Counter
from threading import Thread
from typing import Self

__all__ = ["StatsdReceiver"]


class StatsdReceiver:
    """Use it as a context manager; listens on a free port of this machine."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._counters: Counter[str] = Counter()
        self._thread = Thread(target=self._listen, daemon=True)

    @property
    def variables(self) -> dict[str, str]:
        """The settings that let Airflow send its metrics here, only ours: a full socket would drop some of them."""
        return {
            "AIRFLOW__METRICS__METRICS_ALLOW_LIST": "icefloe",
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(self._socket.getsockname()[1]),
        }

    def count(self, name: str) -> int:
        """The value of a counter, named without Airflow's prefix."""
        return self._counters[f"airflow.{name}"]

    def __enter__(self) -> Self:
        """Begins to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends with an empty datagram."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ending:
            ending.sendto(b"", self._socket.getsockname())
        self._thread.join(timeout=10)
        self._socket.close()

    def _listen(self) -> None:
        while data := self._socket.recv(65_536):
            for line in data.decode(errors="replace").splitlines():
                name, _, rest = line.partition(":")
                value, _, kind = rest.partition("|")
                if kind.startswith("c"):
                    self._counters[name] += int(float(value))
