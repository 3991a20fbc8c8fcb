import copy
import pickle
import zlib

import pyarrow as pa
import pytest
from botocore.exceptions import EndpointConnectionError

from icefloe.errors import (
    IcefloeError,
    NotBuiltError,
    TerminalError,
    TransientError,
    UsageError,
    lack_of_memory_named,
    one_line,
)
from icefloe.iceberg.catalog.catalog_errors import reading_metadata
from icefloe.iceberg.catalog.file_io import reading_data_file
from icefloe.iceberg.manifests.avro_container import decoding
from icefloe.storage.local_folders import on_local_disk
from icefloe.storage.store import KeyMissingError


def test_facts_are_readable_as_attributes():
    error = TerminalError("table nyc.flights has no snapshot 7", table="nyc.flights", snapshot_id=7)
    assert (error.table, error.snapshot_id) == ("nyc.flights", 7)
    assert error.sentence == str(error) == "table nyc.flights has no snapshot 7"


def test_a_declared_fact_that_is_not_given_is_none():
    error = TransientError("the store is away", key="a")
    assert (error.url, dict(error.facts)) == (None, {"key": "a"})


def test_an_error_is_restated_with_its_facts_and_more():
    error = KeyMissingError.of("file:///lake", "a").restated("another sentence", path="b")
    assert (type(error), error.sentence) == (KeyMissingError, "another sentence")
    assert error.facts == {"url": "file:///lake", "key": "a", "path": "b"}


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [(IcefloeError, 65), (TerminalError, 65), (NotBuiltError, 65), (TransientError, 75), (UsageError, 2)],
)
def test_every_family_has_its_exit_code(kind, exit_code):
    assert kind("a sentence").exit_code == exit_code


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_the_way_between_processes(duplicate):
    error = duplicate(NotBuiltError("net is not built yet", key="changes", line=4))
    assert type(error) is NotBuiltError
    assert error.sentence == "net is not built yet"
    assert error.facts == {"key": "changes", "line": 4}


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("LZ4F_compressBegin failed with code: ERROR_allocation_failed"),
        zlib.error("Error -4 while decompressing data: insufficient memory"),
        OSError("ZSTD decompression failed: Allocation error : not enough memory"),
        OSError("LZ4 init failed: ERROR_allocation_failed"),
    ],
)
def test_a_library_that_got_no_memory_is_understood(error: Exception) -> None:
    with pytest.raises(MemoryError, match=r"alloc|memory"), lack_of_memory_named():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        zlib.error("Error -3 while decompressing data: invalid code lengths set"),
        RuntimeError("LZ4F_decompress failed with code: ERROR_frameType_unknown"),
        TerminalError("column 'log' cannot be delivered: 'ERROR_allocation_failed'"),
    ],
)
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)), lack_of_memory_named():
        raise error


def test_a_file_of_the_table_is_not_called_damaged_for_lack_of_memory() -> None:
    with pytest.raises(MemoryError), reading_data_file("s3://b/a.avro", table="db.t"), decoding():
        raise zlib.error("Error -4 while decompressing data")
    with pytest.raises(TerminalError, match="cannot be decoded"), reading_data_file("s3://b/a.avro", table="db.t"):
        raise pa.ArrowInvalid("Corrupt snappy compressed data.")


def test_a_manifest_is_not_called_damaged_for_lack_of_memory():
    with pytest.raises(MemoryError), reading_metadata("db.t", "manifest", "s3://b/m.avro"), decoding():
        raise zlib.error("Error -4 while decompressing data")


@pytest.mark.parametrize(
    ("cause", "kind", "said"),
    [
        (EndpointConnectionError(endpoint_url="https://s3"), TransientError, "cannot read the manifest of table db.t"),
        (OSError(f"When reading {'path/' * 60}: the certificate is refused"), TransientError, "certificate is refused"),
        (ModuleNotFoundError("No module named 'adlfs'"), TerminalError, "install the package for this storage"),
        (ValueError("no Avro"), TerminalError, "is damaged or of an unknown format"),
    ],
    ids=["a client of fsspec", "a long reason", "a package that is missing", "damage"],
)
def test_a_manifest_that_cannot_be_read_says_why(cause, kind, said):
    with pytest.raises(kind, match=said), reading_metadata("db.t", "manifest", "s3://b/m.avro"):
        raise cause


def test_a_codec_without_memory_is_no_full_disk():
    with pytest.raises(MemoryError), on_local_disk("the changes cannot be kept"):
        raise OSError("ZSTD compression failed: Allocation error : not enough memory")


FORGED = "a\x1b[2K\ricefloe: verified\nicefloe: all is well\t\u202e\u2028\u200b"
SHOWN = r"a\x1b[2K\ricefloe: verified\nicefloe: all is well\t\u202e\u2028\u200b"


def test_a_sentence_shows_the_names_in_it_as_they_are_written_and_its_facts_are_exact():
    error = TerminalError(f"table has no branch {FORGED}; write another", path=FORGED)
    assert error.sentence == str(error) == f"table has no branch {SHOWN}; write another"
    assert error.path == FORGED
    assert error.restated(f"{error.sentence}: {FORGED}").sentence == f"{error.sentence}: {SHOWN}"
    assert (
        one_line(ValueError(f"no {FORGED}"))
        == r"no a\x1b[2K\ricefloe: verified icefloe: all is well \u202e\u2028\u200b"
    )


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_the_lines_of_an_error_are_its_sentences_and_no_others(duplicate):
    error = duplicate(TerminalError(*[f"one {FORGED}", "two"], path=FORGED))
    assert (error.sentence, error.path) == (f"one {SHOWN}\ntwo", FORGED)


@pytest.mark.parametrize("name", ["x" * 10_000, "x " * 5_000, "\u202e" * 10_000, "é" * 201])
def test_long_names_are_cut_in_sentences_and_not_in_facts(name: str) -> None:
    error = TerminalError(f"table db.t has no column {name} and no other", column=name)
    assert error.column == name
    shown = error.sentence.removeprefix("table db.t has no column ").removesuffix(" and no other")
    assert len(shown) in {199, 200}
    assert "..." in shown
    assert len(one_line(ValueError(f"no such column: {name}"))) == 200
    assert len(TerminalError(f"no such column: {name}").sentence) <= 4_000


@pytest.mark.parametrize("name", ["x" * 200, "s3://lake/t/data/day=2026-01-01/00000-0-a.parquet", "x y z " * 33])
def test_other_names_are_shown_as_a_whole(name: str) -> None:
    assert TerminalError(f"no column {name}", column=name).sentence == f"no column {name}"
