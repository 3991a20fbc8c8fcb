"""Obstore's clients of one remote store, which differ in how long they wait for an answer."""

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

from obstore import store as stores

__all__ = ["RemoteClients", "client_timeouts"]

_RETRIES: Final[Any] = {
    "max_retries": 10,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=15), "base": 2},
}
_SILENCE_SHARE: Final = 1 / 3
_RETRY_SHARE: Final = 2 / 3
"""Of the patience; the last try may begin at its end and lasts as long as the silence."""
_UPLOAD_SHARE: Final = 5 / 4
_LONGEST_CONNECT_SECONDS: Final = 5.0
_LONGEST_DOWNLOAD: Final = "1h"


class RemoteClients:
    """The clients of one bucket or container: for looks, which are small, and for what may take long for good reasons.

    Obstore bounds a whole answer by `timeout` and each silence by `read_timeout`. The latter counts from the beginning
    of a request to its headers, so it would cut a slow upload.

    Args:
        url: of the store's root.
        config: credentials and the like.
        client_options: those that are given win.
        patience_seconds: until a store that does not answer is given up.
    """

    def __init__(
        self, url: str, config: Mapping[str, str], client_options: Mapping[str, str], patience_seconds: float
    ) -> None:
        self._url = url
        self._config: Any = dict(config)
        self._client_options = dict(client_options)
        self._patience_seconds = patience_seconds
        self.silence_seconds = patience_seconds * _SILENCE_SHARE
        """How long one request for a look stays without an answer."""
        self.looks = self._client("looks")
        """Asks for what is small, and lists and deletes."""

    @cached_property
    def downloads(self) -> Any:
        """Reads values of any size: only silence ends it early."""
        return self._client("downloads")

    @cached_property
    def uploads(self) -> Any:
        """Writes parts of some megabytes."""
        return self._client("uploads")

    def _client(self, purpose: str) -> Any:
        retry_timeout = timedelta(seconds=self._patience_seconds * _RETRY_SHARE)
        options: Any = {**client_timeouts(purpose, self._patience_seconds), **self._client_options}
        retries: Any = {**_RETRIES, "retry_timeout": retry_timeout}
        return stores.from_url(self._url, config=self._config, client_options=options, retry_config=retries)


def client_timeouts(purpose: str, patience_seconds: float) -> Mapping[str, str]:
    """Obstore's timeouts for ``looks``, ``downloads`` or ``uploads``.

    >>> client_timeouts("downloads", 60.0)
    {'connect_timeout': '5000ms', 'read_timeout': '20000ms', 'timeout': '1h'}
    """
    silence = patience_seconds * _SILENCE_SHARE
    connect = {"connect_timeout": _text(min(_LONGEST_CONNECT_SECONDS, silence))}
    match purpose:
        case "downloads":
            return {**connect, "read_timeout": _text(silence), "timeout": _LONGEST_DOWNLOAD}
        case "uploads":
            return {**connect, "timeout": _text(patience_seconds * _UPLOAD_SHARE)}
    return {**connect, "timeout": _text(silence)}


def _text(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
