"""Obstore's clients of one remote store, each with its own patience."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from obstore import store as stores
from obstore.exceptions import AlreadyExistsError

from icefloe.errors import TerminalError, TransientError
from icefloe.patience import brief_seconds, silence_of

if TYPE_CHECKING:
    from obstore.store import RetryConfig

_RETRIES: Final["RetryConfig"] = {
    "max_retries": 10,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=15), "base": 2},
}
SILENCE_SHARE: Final = 1 / 3
RETRY_SHARE: Final = 2 / 3
"""Share of the patience; the last try may begin at its end and lasts as long as the silence."""
_UPLOAD_SHARE: Final = 5 / 4
_UPLOAD_BYTES: Final = 64 * 2**20
"""Bytes that must go within the time of one upload; a larger value in one request gets a multiple of that time."""
LONGEST_CONNECT_SECONDS: Final = 5.0
_LONGEST_DOWNLOAD: Final = "1h"


class RemoteClients:
    """The clients of one bucket or container: for looks, which are small, and for longer requests."""

    def __init__(
        self,
        url: str,
        config: Mapping[str, str],
        client_options: Mapping[str, str],
        patience_seconds: float,  # until a silent store is given up
        endpoint: str = "",  # empty for the vendor's
    ) -> None:
        self._url = url
        self._config: Any = dict(config)
        self._client_options = dict(client_options)
        self._patience_seconds = patience_seconds
        self.silence_seconds = patience_seconds * SILENCE_SHARE
        """Time after which one request for a look is given up."""
        self._silence = silence_of(url, endpoint, client_options.get("root_certificate", ""))
        self._made: dict[tuple[str, int], stores.ObjectStore] = {}
        # Made at once, so that options that do not fit are found when the store is opened.
        self._client("looks")

    @property
    def looks(self) -> stores.ObjectStore:
        """The client that reads small values, lists and deletes."""
        return self._client("brief" if self._silence.is_recent else "looks")

    @property
    def downloads(self) -> stores.ObjectStore:
        """Reads values of any size: only silence ends a request early."""
        return self._client("downloads")

    def upload_of(self, size_bytes: int) -> stores.ObjectStore:
        """The client that writes a value of that size in one request."""
        # A client's time is fixed when it is made. By powers of two a few clients serve every size.
        return self._client("uploads", times=1 << (max(0, size_bytes - 1) // _UPLOAD_BYTES).bit_length())

    @contextmanager
    def heard(self, *, is_look: bool = True) -> Iterator[None]:
        """Notes whether the store answers; after it did not, the next looks wait only briefly."""
        started = monotonic()
        try:
            yield
        except TransientError:
            # A large value (``is_look`` is False) may fail at a store that answers well.
            # A refused connection fails at once and costs nobody time, so it is no silence. A refusal by the service is
            # an answer.
            if is_look and monotonic() - started >= self.silence_seconds:
                self._silence.begin(self._patience_seconds)
            raise
        except (TerminalError, AlreadyExistsError):
            self._silence.end()
            raise
        self._silence.end()

    def _client(self, purpose: str, *, times: int = 1) -> stores.ObjectStore:
        if (purpose, times) in self._made:
            return self._made[purpose, times]
        # `timeout` bounds a whole answer. `read_timeout`, each silence up to the headers, would cut a slow upload.
        # The last try may begin after two thirds of the patience and is given up after one more third: at its end.
        retry_timeout = timedelta(seconds=0 if purpose == "brief" else self._patience_seconds * RETRY_SHARE)
        options: Any = {**client_timeouts(purpose, self._patience_seconds, times=times), **self._client_options}
        retries: RetryConfig = {**_RETRIES, "retry_timeout": retry_timeout}
        made = stores.from_url(self._url, config=self._config, client_options=options, retry_config=retries)
        return self._made.setdefault((purpose, times), made)


def client_timeouts(purpose: str, patience_seconds: float, *, times: int = 1) -> Mapping[str, str]:
    """Obstore's timeouts for ``looks``, ``downloads``, ``uploads`` or ``brief`` looks after a silence.

    Args:
        times: factor of the usual time, for a larger upload.

    >>> client_timeouts("downloads", 60.0)
    {'connect_timeout': '5000ms', 'read_timeout': '20000ms', 'timeout': '1h'}
    >>> client_timeouts("uploads", 60.0, times=4)
    {'connect_timeout': '5000ms', 'timeout': '300000ms'}
    """
    # Of a patience of 60 s (connecting takes 5 s of it at most):
    #               whole answer   each silence   a last try may begin
    #   looks       20 s                          after 40 s
    #   downloads   1 h            20 s           after 40 s
    #   uploads     75 s, or more for large ones  after 40 s
    #   brief       5 s                           never: there is one try
    silence = patience_seconds * SILENCE_SHARE
    connect = {"connect_timeout": _text(min(LONGEST_CONNECT_SECONDS, silence))}
    match purpose:
        case "downloads":
            return {**connect, "read_timeout": _text(silence), "timeout": _LONGEST_DOWNLOAD}
        case "uploads":
            return {**connect, "timeout": _text(patience_seconds * _UPLOAD_SHARE * times)}
        case "brief":
            return {**connect, "timeout": _text(brief_seconds(patience_seconds))}
    return {**connect, "timeout": _text(silence)}


def _text(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
