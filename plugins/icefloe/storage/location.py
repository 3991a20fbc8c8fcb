"""From a URL to the store."""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from obstore import store as stores

from icefloe.errors import TerminalError
from icefloe.storage.object_store import ObjectStore, translated
from icefloe.storage.store import Store

__all__ = ["open_store"]

_REMOTE: Final = ("abfs", "abfss", "az", "gs", "s3", "s3a")
_EXPECTED: Final = "expected file:///..., s3://..., gs://... or abfs://..."
_RETRIES: Final[Any] = {
    "max_retries": 10,
    "retry_timeout": timedelta(minutes=3),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=15), "base": 2},
}


def open_store(url: str, *, options: Mapping[str, str] | None = None) -> Store:
    """The store at a URL. Nothing is read or made there yet.

    Args:
        url: ``file:///...``, ``memory://NAME`` (this process only, shared by name), ``s3://``, ``gs://``, ``abfs://``.
        options: credentials and endpoint, as obstore names them; never shown.

    Raises:
        TerminalError: a URL of another form, or options that the store does not know.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _local(url, parts.netloc, parts.path)
    if parts.scheme == "memory":
        store = ObjectStore(f"memory://{parts.netloc}", lambda _: _memory(parts.netloc), is_local=True)
    elif parts.scheme in _REMOTE and parts.netloc:
        root = f"{parts.scheme}://{parts.netloc}"
        with translated(root, "open", "", is_local=True):
            config: Any = dict(options or {})
            remote = stores.from_url(root, config=config, retry_config=_RETRIES)
        store = ObjectStore(root, lambda _: remote)
    else:
        raise TerminalError(f"the store URL {url!r} cannot be opened: {_EXPECTED}", url=url)
    path = unquote(parts.path).strip("/")
    return store.child(path) if path else store


def _local(url: str, host: str, path: str) -> Store:
    folder = Path(unquote(path))
    if host not in ("", "localhost") or not folder.is_absolute():
        raise TerminalError(f"the store URL {url!r} is not the absolute path of a folder: write file:///path", url=url)
    return ObjectStore(url.rstrip("/"), partial(_connect_local, url.rstrip("/"), folder), is_local=True)


def _connect_local(url: str, folder: Path, make: bool) -> Any | None:
    if not make and not folder.is_dir():
        return None
    with translated(url, "open", "", is_local=True):
        return stores.LocalStore(folder, mkdir=make)


@cache
def _memory(name: str) -> Any:  # noqa: ARG001 - the name is the cache's key
    """Memory stores live as long as the process, as files on a disk would."""
    return stores.MemoryStore()
