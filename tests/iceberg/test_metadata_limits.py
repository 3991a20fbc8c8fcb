"""Metadata that is small where it is stored and huge once it is decoded."""

import gzip
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog import catalog_errors
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.history.loaded_table import LoadedTable
from support.catalogs import sql_properties
from support.fakes.answering_server import answering_server
from support.fakes.peak_memory import run_apart
from support.tables.planning_tables import make_table, rows

MIB: Final = 1 << 20
CATALOG: Final = "default"
MOST_KIB: Final = 700 << 10
"""Memory of a process that ends with a sentence: 200 MiB are Python's and its libraries', 128 MiB are allowed twice."""
LOADER: Final = """
from icefloe.errors import IcefloeError
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.history.loaded_table import LoadedTable
from support.fakes.peak_memory import peak_kib

try:
    table = load_table(given, "db.events")
    LoadedTable(table).log.prefetch(range(99))
    found = "loaded"
except IcefloeError as error:
    found = f"{error.exit_code} {error.sentence}"
print(json.dumps([found, peak_kib()]))
"""


def packed(*parts: bytes) -> bytes:
    """The parts as one gzip, without ever being in memory together."""
    packer = zlib.compressobj(wbits=31, level=1)
    return b"".join([*(packer.compress(part) for part in parts), packer.flush()])


def valued(plain: bytes, first: bytes, further: bytes, times: int) -> bytes:
    """With one more key, whose value is a list."""
    return packed(plain[:-1], b', "x": ' + first, further * times, b"]}")


FILES: Final[Mapping[str, tuple[Callable[[bytes], bytes], str]]] = {
    "blanks": (lambda plain: packed(plain, b" " * 2 * MIB), "more than 1.0 MiB"),
    "two gzips": (lambda plain: packed(plain) + packed(b" " * 2 * MIB), "more than 1.0 MiB"),
    "zeros": (lambda plain: valued(plain, b"[0", b",0", 50_000), "more than 40,000 keys and items"),
    "lists": (lambda plain: valued(plain, b"[[]", b",[]", 20_000), "more than 40,000 keys and items"),
    "depth": (lambda plain: valued(plain, b"", b"[[", 20_000), "more than 40,000 keys and items"),
    "a cut gzip": (lambda plain: packed(plain)[:-20], "cannot be decompressed"),
    "no gzip": (lambda plain: plain, "cannot be decompressed"),
    "a wrong gzip": (lambda plain: packed(plain)[:12] + b"\xff" * 40, "cannot be decompressed"),
}


@pytest.fixture
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller limits, which take less time to reach."""
    monkeypatch.setattr(catalog_errors, "MAX_METADATA_BYTES", MIB)
    monkeypatch.setattr(catalog_errors, "MAX_METADATA_VALUES", 40_000)


@pytest.fixture
def plain(tmp_path: Path) -> bytes:
    """The metadata of a table of one snapshot, which is in a catalog."""
    table = make_table(tmp_path)
    table.append(rows(1))
    return Path(table.metadata_location.removeprefix("file://")).read_bytes()


def point_to(folder: Path, content: bytes) -> None:
    """Lets the catalog name a metadata file of some content."""
    path = folder / "warehouse" / "db" / "events" / "metadata" / "v9.gz.metadata.json"
    path.write_bytes(content)
    with sqlite3.connect(folder / "catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", [f"file://{path}"])


def logged(folder: Path, plain: bytes, content: bytes) -> bytes:
    """Metadata whose log names six files of some content."""
    paths = [folder / "warehouse" / "db" / "events" / "metadata" / f"log-{n}.gz.metadata.json" for n in range(6)]
    for path in paths:
        path.write_bytes(content)
    log = [{"metadata-file": f"file://{path}", "timestamp-ms": number} for number, path in enumerate(paths)]
    return packed(json.dumps({**json.loads(plain), "metadata-log": log}).encode())


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize("name", FILES)
def test_a_metadata_file_that_is_huge_once_decoded_is_one_sentence(tmp_path: Path, plain: bytes, name: str) -> None:
    made, said = FILES[name]
    for content in (made(plain), logged(tmp_path, plain, made(plain))):
        point_to(tmp_path, content)
        with pytest.raises(TerminalError, match=rf"\.gz\.metadata\.json.*{said}|{said}.*\.gz\.metadata\.json"):
            LoadedTable(load_table({"name": CATALOG, **sql_properties(tmp_path)}, "db.events")).log.prefetch(range(99))


@pytest.mark.slow
def test_whatever_is_decoded_a_process_has_the_memory_for_it(tmp_path: Path, plain: bytes) -> None:
    """Six files of the log at once, and an answer of a REST catalog."""
    point_to(tmp_path, logged(tmp_path, plain, valued(plain, b"[[]", b",[]", 10 * MIB)))
    body = packed(*[b" " * MIB] * 300)
    with answering("/tables/events", 200, body, {"Content-Encoding": "gzip"}) as rest:
        for properties in ({"name": CATALOG, **sql_properties(tmp_path)}, {"name": "lake", **rest}):
            [(found, peak_kib)] = run_apart(LOADER, properties)
            assert "the most that icefloe decodes" in found
            assert found.startswith("65 ")
            assert peak_kib < MOST_KIB


def test_compressed_metadata_is_loaded(tmp_path: Path, plain: bytes) -> None:
    point_to(tmp_path, gzip.compress(plain[:1000]) + gzip.compress(plain[1000:]))
    assert len(load_table({"name": CATALOG, **sql_properties(tmp_path)}, "db.events").metadata.snapshots) == 1


ANSWERS: Final[Mapping[str, tuple[int, bytes, dict[str, str]]]] = {
    "blanks": (200, b" " * 2 * MIB, {}),
    "zeros": (200, b'{"x": [0' + b",0" * 50_000 + b"]}", {}),
    "a gzip": (200, packed(b" " * 2 * MIB), {"Content-Encoding": "gzip"}),
    "a deflate": (200, zlib.compress(b" " * 2 * MIB), {"Content-Encoding": "deflate"}),
    "an error": (400, packed(b" " * 2 * MIB), {"Content-Encoding": "gzip"}),
    "a redirect": (307, packed(b" " * 2 * MIB), {"Content-Encoding": "gzip", "Location": "/elsewhere"}),
}


@contextmanager
def answering(asked: str, status: int, body: bytes, headers: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """A REST catalog that gives one answer to one of its requests; gives the properties of the catalog."""

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        if asked in request.path:
            return status, dict(headers), body
        known = {
            "/v1/config": {"defaults": {}, "overrides": {}},
            "/tokens": {"access_token": "t", "token_type": "bearer", "expires_in": 3600},
        }
        return 200, {}, json.dumps(known.get(request.path, {})).encode()

    with answering_server(answer) as (url, _):
        yield {"type": "rest", "uri": url, "credential": "id:secret", "oauth2-server-uri": f"{url}/tokens"}


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize("asked", ["/tokens", "/v1/config", "/tables/events"])
def test_an_answer_of_a_rest_catalog_that_is_huge_once_decoded_is_one_sentence(asked: str) -> None:
    for answer in ANSWERS.values():
        with (
            answering(asked, *answer) as properties,
            pytest.raises(TerminalError, match=r"^an answer of catalog 'lake' has more than "),
        ):
            load_table({"name": "lake", **properties}, "db.events")


BROKEN: Final[Mapping[str, tuple[Callable[[dict[str, Any]], object], str]]] = {
    "a type": (lambda metadata: metadata.update({"last-updated-ms": "soon"}), "last-updated-ms: Input should"),
    "a missing key": (lambda metadata: metadata.pop("location"), "location: Field required"),
    "a key inside": (
        lambda metadata: metadata["schemas"][0]["fields"][0].pop("id"), "2.schemas.0.fields.0.id: Input should be",
    ),
    "a key in a snapshot": (
        lambda metadata: metadata["snapshots"][0].update({"timestamp-ms": []}), "snapshots.0.timestamp-ms: Input",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_metadata_that_pyiceberg_refuses_is_named_by_its_first_wrong_key(
    tmp_path: Path, plain: bytes, name: str
) -> None:
    broken, said = BROKEN[name]
    metadata = json.loads(plain)
    broken(metadata)
    point_to(tmp_path, packed(json.dumps(metadata).encode()))
    table = {"metadata-location": "file:///t/v1.metadata.json", "metadata": metadata, "config": {}}
    with answering("/tables/events", 200, json.dumps(table).encode(), {}) as rest:
        for properties in ({"name": CATALOG, **sql_properties(tmp_path)}, {"name": "lake", **rest}):
            with pytest.raises(TerminalError) as refused:
                load_table(properties, "db.events")
            assert said in refused.value.sentence
