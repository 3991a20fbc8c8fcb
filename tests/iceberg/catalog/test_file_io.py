import errno
import logging

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.file_io import FileGoneError, data_file_input, open_file_io, reading_data_file


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
