"""From a URL to the store; probes of whether it keeps two runs apart, and of its time."""

import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from itertools import compress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any, Final
from urllib.parse import unquote

from obstore import store as stores

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.patience import answer_within, brief_seconds, patience_seconds
from icefloe.redaction.hidden import hide, hide_environment
from icefloe.storage.clients import RemoteClients
from icefloe.storage.dynamodb_items import ChunkedValues, Items
from icefloe.storage.dynamodb_store import CoordinatedStore, DynamodbStore
from icefloe.storage.dynamodb_table import opened_table
from icefloe.storage.local_store import LocalStore
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.options import (
    COORDINATION,
    ROOT_CERTIFICATE,
    STORAGE,
    DynamodbAccess,
    check_encrypted,
    endpoint_of,
    plain_address,
    service_of,
    usable_options,
    with_certificates,
    without_coordination,
)
from icefloe.storage.requests import Requests, map_parallel
from icefloe.storage.store import Store, check_folder
from icefloe.storage.store_errors import StorePlace

__all__ = ["TRIALS", "open_store", "plain_endpoint", "probe", "store_time"]

PROBE: Final = "_probe-"
"""First part of a key that is only tried. If a killed run leaves it in a sink, Spark and Arrow do not read it as data,
because of how its name begins."""
_AT_ONCE: Final = 16
_LONGEST_START_SECONDS: Final = 5.0
_WAY_OUT: Final = "or set coordination to a table of DynamoDB"


def probe(store: Store, *, way_out: str = _WAY_OUT, is_new: bool = True) -> None:
    """Proves that a place, and its table, can be written and honour create-if-absent; leaves nothing.

    Args:
        is_new: False for a place tried before: saves the requests of creates at once.
    """
    key = f"{PROBE}{uuid.uuid4().hex}"
    put_key, race_key = f"{key}-put", f"{key}-race"
    keys = [key, *([put_key] if store.created_in else []), *([race_key] if is_new else [])]
    try:
        store.create(key, b"first")
        is_kept = not store.create(key, b"second") and store.get(key) == b"first"
        if not is_kept or (is_new and not _one_wins(store, race_key)):
            raise TerminalError(
                f"the store {store.url} ignores create-if-absent, which keeps two runs apart: a second create of one "
                f"key succeeded; use local disk, S3, GCS, Azure or a service whose conditional puts work, {way_out}",
                url=store.url,
            )
        if store.created_in:
            store.put(put_key, b"put")
    except IcefloeError:
        # The user must read the first error, and soon: a store that lies may not delete either.
        with suppress(IcefloeError, TimeoutError):
            answer_within(brief_seconds(patience_seconds(os.environ)), lambda: store.delete(keys))
        raise
    store.delete(keys)


def _one_wins(store: Store, key: str) -> bool:
    """Several win at a store that looks first and then writes."""
    values = [f"{each}".encode() for each in range(_AT_ONCE)]
    begin = Barrier(_AT_ONCE, timeout=_LONGEST_START_SECONDS)

    def create(value: bytes) -> bool:
        # The system may refuse a thread after others have begun.
        with suppress(BrokenBarrierError):
            begin.wait()
        return store.create(key, value)

    won = list(compress(values, map_parallel(create, values, at_once=_AT_ONCE)))
    # A create whose first answer was lost has won and does not know it.
    return len(won) <= 1 and store.get(key) in (won or values)


CLOCK_FOLDER: Final = "_clock.probes"
"""No pipeline can have this name, because of its dot."""
TRIALS: Final = rf"{PROBE}[^/]*|{re.escape(CLOCK_FOLDER)}/.+"
"""Matches the ends of keys that `probe` and `store_time` leave if they are killed."""


def store_time(store: Store) -> datetime:
    """The present time of a store: an object is written and deleted at once.

    This machine's clock may be wrong, and shared folders have a time of their own.
    """
    key = f"{CLOCK_FOLDER}/{uuid.uuid4().hex}"
    # Put, not created: a table that coordinates the store has a clock of its own.
    store.put(key, b"now")
    try:
        times = [each.modified for each in store.list(CLOCK_FOLDER) if each.key == key]
    finally:
        store.delete([key])
    if not times:
        raise TransientError(f"{store.url} does not list an object that was just written to it; try again", key=key)
    return times[0]


_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]*)(/.*)?")
_OURS: Final = frozenset({"file", "memory", "s3", "gs", "abfs", "abfss", "dynamodb"})
_EXPECTED: Final = (
    "expected file:///folder, s3://bucket/folder, gs://bucket/folder or "
    "abfss://container@account.dfs.core.windows.net/folder, or the scheme of an installed package"
)
_TABLE_ITSELF: Final = "dynamodb://"
"""Begins the place of items that coordinate no object store. It lacks the table's name: a restored one has another."""
# Obstore takes these separately from the other options, and panics if they come together.
_CLIENT_OPTIONS: Final = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only", "http2_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses",
    "read_timeout", "root_certificate", "timeout", "user_agent",
})  # fmt: skip
_VENDORS: Final = {"s3": "aws_", "gs": "google_", "abfs": "azure_", "abfss": "azure_"}


def open_store(
    url: str,
    *,
    options: Mapping[str, str] | None = None,
    requests: Requests | None = None,
    patience: float | None = None,
) -> Store:
    """The store at a URL. Nothing is read or made yet; the first write makes a local folder.

    Args:
        url: ``file:///folder`` (percent-encoded or not, but a ``%`` must be ``%25``), ``memory://NAME`` (this process
            only, shared by name), ``s3://``, ``gs://``, ``abfs://``, ``abfss://`` and ``dynamodb://TABLE``; others by
            the entry point ``icefloe.stores`` of a package, which is called as ``open(root_url, options=...,
            patience=...)``.
        options: credentials, endpoint and client settings, as obstore names them; never shown. Missing ones come from
            the environment and the machine's identity. ``coordination`` names the table of DynamoDB in which values
            are created, ``dynamodb_region`` and the like open it.
        patience: seconds until a silent remote store is given up; None: the environment's setting.
    """
    match = _URL.fullmatch(url)
    package = None if match is None or match[1] in _OURS else Store.of_package(match[1])
    if match is None or (package is None and match[1] not in _OURS):
        raise TerminalError(f"{_shown(url)} is not the URL of a store: {_EXPECTED}")
    scheme, authority, path = match[1], match[2], (match[3] or "/")[1:].removesuffix("/")
    if scheme == "file":
        if authority not in ("", "localhost") or match[3] is None:
            raise TerminalError(f"{_shown(url)} names no absolute folder: write file:///folder, with three slashes")
        return _local(re.sub("/+", "/", path).strip("/"), requests)
    if not authority or (":" in authority and package is None) or ("@" in authority and not scheme.startswith("abfs")):
        raise TerminalError(
            f"{_shown(url)} must name a bucket or container after {scheme}:// and hold no credentials: {_EXPECTED}"
        )
    given, patience = options or {}, patience or patience_seconds(os.environ)
    requests = requests or Requests()
    if scheme == "dynamodb":
        place = _TABLE_ITSELF + (_place(given[STORAGE], given) if STORAGE in given else "")
        root: Store = _table(url, place, f"dynamodb://{authority}", given, requests, patience, None)
        return root.child(path) if path else root
    root_url = f"{scheme}://{authority}"
    if scheme == "memory":
        place_of_memory, objects = StorePlace(url=root_url, is_local=True), _memory_root(authority)
        root = ObjectStore(place_of_memory, lambda: objects, requests)
    elif package is not None:
        hide(options := without_coordination(given))
        root = package.load()(root_url, options=options, patience=patience)
    else:
        root = _remote(root_url, without_coordination(given), requests, patience)
    if coordination := given.get(COORDINATION):
        # A prefix comes first, so that the rights of a deployment may be limited to its own partition keys.
        prefix = coordination.partition("://")[2].partition("/")[2].removesuffix("/")
        place = (check_folder(prefix) + "/" if prefix else "") + _place(root_url, given)
        root = CoordinatedStore(_table(coordination, place, root_url, given, requests, patience, root), root)
    return root.child(path) if path else root


def plain_endpoint(url: str, options: Mapping[str, str]) -> str:
    """Scheme, host and port of a store's unencrypted endpoint; empty if it has none."""
    scheme = url.partition("://")[0]
    if scheme not in _VENDORS:
        return ""
    usable = usable_options(scheme, without_coordination(options), os.environ)
    return plain_address(endpoint_of(scheme, usable, os.environ))


def _local(path: str, requests: Requests | None) -> LocalStore:
    decoded = unquote(path, errors="surrogateescape")
    folder = Path("/") / (check_folder(decoded) if decoded else "")
    place = StorePlace(url=f"file:///{path}".removesuffix("/"), is_local=True)
    return LocalStore(place, folder, requests)


def _table(
    url: str,
    place: str,
    store_url: str,
    options: Mapping[str, str],
    requests: Requests,
    patience: float,
    objects: Store | None,
) -> DynamodbStore:
    """Large values are among its objects, if there are any."""
    hide_environment(os.environ)
    table = opened_table(DynamodbAccess.of(url, options, os.environ), patience)
    large = objects or ChunkedValues(Items(table, f"{place}#chunks", store_url, requests))
    return DynamodbStore(Items(table, place, store_url, requests), large)


def _place(url: str, options: Mapping[str, str]) -> str:
    """Only one place has it, at whatever service."""
    scheme, _, rest = url.rstrip("/").partition("://")
    usable = usable_options(scheme, without_coordination(options), os.environ)
    return f"{scheme.replace('abfss', 'abfs')}://{rest}{service_of(scheme, usable, os.environ)}"


@cache
def _memory_root(_name: str) -> stores.MemoryStore:
    """They live as long as the process."""
    return stores.MemoryStore()


def _remote(url: str, options: Mapping[str, str], requests: Requests | None, patience: float) -> ObjectStore:
    # Before anything can fail: errors of the client may quote any option, and any variable that it reads.
    hide(options)
    hide_environment(os.environ)
    scheme = url.partition("://")[0]
    options = usable_options(scheme, options, os.environ)
    endpoint = endpoint_of(scheme, options, os.environ)
    place = StorePlace(url=url, is_local=False)
    client = _client_options(_VENDORS[scheme], options, os.environ)
    variable = f" or {_VENDORS[scheme].upper()}ALLOW_HTTP in the environment"
    check_encrypted(url, endpoint, client.get("allow_http"), option="allow_http", variable=variable)
    config: Any = {key: value for key, value in options.items() if key not in _CLIENT_OPTIONS}
    with place.faults("open", ""):
        clients = RemoteClients(url, config, client, patience, endpoint)
    return ObjectStore(place, lambda: clients.looks, requests, clients)


def _client_options(vendor: str, options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Obstore reads the environment only if it is given no options."""
    bundle = environ.get("AWS_CA_BUNDLE", "") if vendor == "aws_" else ""
    given = {ROOT_CERTIFICATE: bundle} if bundle else {}
    own = {name.lower(): value for name, value in environ.items() if name.lower().startswith(vendor)}
    given |= {name.removeprefix(vendor): value for name, value in own.items()} | dict(options)
    return with_certificates({key: value for key, value in given.items() if key in _CLIENT_OPTIONS})


def _shown(url: str) -> str:
    """Only its beginning if it may hold credentials."""
    return repr(url.partition("://")[0] + "://..." if "@" in url or "?" in url else url)
