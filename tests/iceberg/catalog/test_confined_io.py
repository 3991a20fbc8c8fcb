from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalogs import load_table, reload_table
from icefloe.iceberg.catalog.confined_io import ConfinedIO, FileElsewhereError, refuse_elsewhere
from icefloe.iceberg.catalog.file_places import FilePlace, FilePlaces
from icefloe.pipeline.url import location_fault
from support.tables.planning_tables import make_table, rows

LAKE = FilePlaces(
    places=(FilePlace(scheme="s3", authority="lake"), FilePlace(scheme="file", authority="", path="mnt/old"))
)


class Unreachable(PyArrowFileIO):
    def new_input(self, location: str) -> object:  # type: ignore[override]
        raise AssertionError(f"a request went to {location}")


def test_a_file_elsewhere_is_refused_before_any_request_in_a_sentence_that_says_what_to_do() -> None:
    io = ConfinedIO(Unreachable(), LAKE, table="db.events")
    with pytest.raises(FileElsewhereError) as refused:
        io.new_input("hdfs://evil:8020/a.parquet")
    assert isinstance(refused.value, TerminalError)
    assert refused.value.sentence == (
        "table db.events names the file hdfs://evil:8020/a.parquet, which is outside s3://lake, file:///mnt/old: if it "
        'belongs to the table, write allowed_locations: ["hdfs://evil:8020"] in the pipeline file; if not, a writer '
        "of the table wants icefloe to read a foreign file"
    )
    assert (refused.value.path, refused.value.table) == ("hdfs://evil:8020/a.parquet", "db.events")


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/data/wh/t/data/a.parquet", "file:///data/wh/t/data"),
        ("s3a://old/t/data/day=1/hour=2/a.parquet", "s3://old/t/data"),
        ("s3://old/t/data/0110/1001/1011/00100110/day=1/a.parquet", "s3://old/t/data"),
        ("abfss://box@account.dfs.core.windows.net/t/a.avro", "abfs://box@account.dfs.core.windows.net/t"),
    ],
)
def test_the_line_that_is_proposed_allows_the_files_next_to_it_too_and_keeps_what_was_allowed(
    path: str, folder: str
) -> None:
    io = ConfinedIO(Unreachable(), LAKE, table="t", allowed_locations=["file:///mnt/old"])
    with pytest.raises(FileElsewhereError) as refused:
        io.new_input(path)
    assert f'write allowed_locations: ["file:///mnt/old", "{folder}"] in' in refused.value.sentence
    assert location_fault(folder) is None
    allowed = FilePlaces.of_table("s3://x/t", metadata_location="", warehouse=None, allowed_locations=[folder])
    assert allowed.hold(path)


@pytest.mark.parametrize("path", ["file:///passwd", "s3://lake/../x/a", "http://evil/a"])
def test_no_line_is_proposed_that_would_allow_a_whole_disk_or_that_a_pipeline_file_cannot_have(path: str) -> None:
    with pytest.raises(FileElsewhereError) as refused:
        ConfinedIO(Unreachable(), LAKE, table="t").new_input(path)
    assert "allowed_locations: [" not in refused.value.sentence
    assert "no folder that can be allowed" in refused.value.sentence


def test_files_are_opened_where_they_may_lie_with_the_properties_of_the_opener(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"rows")
    here = FilePlaces(places=(FilePlace(scheme="file", authority="", path=str(tmp_path).strip("/")),))
    io = ConfinedIO(PyArrowFileIO({"s3.region": "x"}), here, table="db.events")
    assert io.properties == {"s3.region": "x"}
    assert io.new_input(f"file://{tmp_path}/a").open().read() == b"rows"


def test_a_file_of_localhost_is_opened_where_it_was_judged_to_be(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").write_bytes(b"rows")
    below = tmp_path / "cwd" / f"localhost{tmp_path}"
    below.mkdir(parents=True)
    (below / "a").write_bytes(b"what PyIceberg opens: a path relative to the working directory")
    monkeypatch.chdir(tmp_path / "cwd")
    here = FilePlaces(places=(FilePlace(scheme="file", authority="", path=str(tmp_path).strip("/")),))
    for host in ("localhost", "LOCALHOST"):
        io = ConfinedIO(PyArrowFileIO(), here, table="db.events")
        assert io.new_input(f"file://{host}{tmp_path}/a").open().read() == b"rows"


def test_tables_are_never_written() -> None:
    io = ConfinedIO(Unreachable(), LAKE, table="db.events")
    for write in (io.new_output, io.delete):
        with pytest.raises(NotImplementedError, match="icefloe only reads tables"):
            write("s3://lake/a")


def test_a_list_of_files_is_refused_by_the_first_that_lies_elsewhere() -> None:
    refuse_elsewhere(ConfinedIO(Unreachable(), LAKE, table="t"), ["s3://lake/a", "file:/mnt/old/b"])
    refuse_elsewhere(PyArrowFileIO(), ["anywhere://a"])
    with pytest.raises(FileElsewhereError, match="names the file s3://other/b"):
        refuse_elsewhere(ConfinedIO(Unreachable(), LAKE, table="t"), ["s3://lake/a", "s3://other/b", "s3://third/c"])


def test_allowed_places_are_kept_when_a_table_is_loaded_again(tmp_path: Path) -> None:
    make_table(tmp_path).append(rows(1))
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db"}
    loaded = load_table(catalog, "db.events", allowed_locations=["s3://archive/events"])
    for table in (loaded, reload_table(loaded)):
        assert isinstance(table.io, ConfinedIO)
        assert [str(place) for place in table.io.places.places] == [
            f"file://{tmp_path}/warehouse/db/events", "s3://archive/events",
        ]  # fmt: skip
