import errno
import logging
import pickle
import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.file_io import FileGoneError, data_file_input, exact, open_file_io, reading_data_file
from support.fakes.answering_server import answering_server

STORE = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "eu-west-1"}


@pytest.mark.parametrize("location", ["file:///data", "/data", "s3://bucket/data"])
def test_the_location_chooses_the_file_io(location: str) -> None:
    assert isinstance(open_file_io({"s3.region": "eu-west-1"}, location), PyArrowFileIO)


def test_an_implementation_that_cannot_be_loaded_is_an_error_without_any_property_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    properties = {"py-io-impl": "no.such.module.FileIO", "s3.secret-access-key": "hush"}
    with pytest.raises(TerminalError, match="found no FileIO") as refused:
        open_file_io(properties, "s3://bucket/t")
    assert "hush" not in f"{refused.value} {refused.value.facts} {caplog.text}"


@pytest.mark.parametrize(
    ("path", "cause", "family"),
    [
        ("s3://b/f", FileNotFoundError("no"), FileGoneError),
        ("/d/f", PermissionError("no"), TerminalError),
        ("s3://b/f", pa.ArrowInvalid("not a Parquet file"), TerminalError),
        ("/d/f", OSError("Corrupt snappy compressed data."), TerminalError),
        ("/d/f", OSError(errno.EIO, "Input/output error"), TransientError),
        ("s3://b/f", OSError("AWS Error NETWORK_CONNECTION during GetObject"), TransientError),
        ("s3://b/f", TimeoutError("too slow"), TransientError),
    ],
    ids=str,
)
def test_errors_are_distinguished_by_type_and_name_file_and_table(
    path: str, cause: Exception, family: type[Exception]
) -> None:
    with (
        pytest.raises(family, match=f"file {path} of table db.t") as refused,
        reading_data_file(path, table="db.t"),
    ):
        raise cause
    assert refused.value.__cause__ is cause
    assert isinstance(refused.value, TransientError) == (family is TransientError)


def test_a_file_that_is_gone_advises_what_helps_without_an_open_batch() -> None:
    advice = r"was deleted; restore it, or load the whole table again with icefloe reset$"
    with pytest.raises(FileGoneError, match=advice), reading_data_file("/d/f", table="db.t"):
        raise FileNotFoundError("no")


def test_a_storage_that_the_file_io_does_not_know_is_an_error_that_names_the_file() -> None:
    with pytest.raises(TerminalError, match=r"data file ftp://h/f of table db.t cannot be opened: PyArrowFileIO"):
        data_file_input(PyArrowFileIO(), "ftp://h/f", table="db.t")


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), reading_data_file("/d/f", table="db.t"):
        raise KeyError("bug")


ODD = (
    "a b",
    "a#b",
    "a?b",
    "a;b",
    "a%20b",
    "a+b",
    "a&b=c",
    "a#b?c",
    "ä",
    "a\\b",
    "a//b",
    "#",
    "a:b",
    "a@b",
    "p=x#y/f",
    "a*",
    "a'",
)


@pytest.mark.parametrize("name", [*ODD, "a/./b"])
@pytest.mark.parametrize("scheme", ["file://", "file:", ""])
def test_a_local_path_is_opened_as_it_is_written(name: str, scheme: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    for decoy in {name.partition(character)[0] for character in "#?;%"}:
        if decoy and not (tmp_path / decoy).exists() and not decoy.endswith("/"):
            (tmp_path / decoy).write_bytes(b"another file")
    (tmp_path / name).write_bytes(b"the file")
    assert exact(PyArrowFileIO()).new_input(f"{scheme}{tmp_path}/{name}").open().read() == b"the file"


@pytest.mark.parametrize("name", [name for name in ODD if "//" not in name])
def test_a_key_of_a_store_is_asked_for_as_it_is_written(name: str) -> None:
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        asked.append(unquote(request.path))
        return 200, {"Last-Modified": "Wed, 21 Oct 2026 07:28:00 GMT", "ETag": '"x"'}, b"the file"

    with answering_server(answer) as (url, _):
        io = exact(PyArrowFileIO({"s3.endpoint": url, **STORE}))
        assert io.new_input(f"s3://lake/t/{name}").open().read() == b"the file"
    assert set(asked) == {f"/lake/t/{name}"}


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfss"])
@pytest.mark.parametrize(("path", "odd"), [("t//f", "//"), ("/t/f", "//"), ("t/./f", "/./"), ("t/../f", "/../")])
def test_a_key_that_pyarrow_does_not_ask_for_is_refused_by_what_is_odd(scheme: str, path: str, odd: str) -> None:
    with pytest.raises(TerminalError, match=rf"has {re.escape(odd)} in it, .* set py-io-impl") as refused:
        data_file_input(exact(PyArrowFileIO(STORE)), f"{scheme}://lake/{path}", table="db.t")
    assert "damaged" not in str(refused.value)


def test_another_file_io_and_another_bucket_stay_what_they_are() -> None:
    io = FsspecFileIO({})
    assert exact(io) is io
    given = PyArrowFileIO()
    assert exact(given) is not given
    assert pickle.loads(pickle.dumps(exact(given))).parse_location("file:///a#b") == ("file", "", "/a#b")
    assert exact(given).parse_location("s3://lake#x/f")[2] == "lake"
