import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyroaring import BitMap64

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalogs import load_table, reload_table
from icefloe.iceberg.catalog.confined_io import ConfinedIO, FilePlace, FilePlaces, refuse_elsewhere
from icefloe.iceberg.deletes.deletion_vector import read_deletion_vectors
from icefloe.pipeline.url import location_fault
from support.tables.planning_tables import make_table, rows
from support.tables.written_deletes import write_deletion_vector

LAKE = FilePlaces(
    places=(FilePlace(scheme="s3", authority="lake"), FilePlace(scheme="file", authority="", path="mnt/old"))
)


class Unreachable(PyArrowFileIO):
    def new_input(self, location: str) -> object:  # type: ignore[override]
        raise AssertionError(f"a request went to {location}")


def test_a_file_elsewhere_is_refused_before_any_request_in_a_sentence_that_says_what_to_do() -> None:
    io = ConfinedIO(Unreachable(), LAKE, table="db.events")
    with pytest.raises(TerminalError) as refused:
        io.new_input("hdfs://evil:8020/a.parquet")
    assert refused.value.sentence == (
        "table db.events names the file hdfs://evil:8020/a.parquet, which is outside s3://lake, file:///mnt/old: if it "
        'belongs to the table, write allowed_locations: ["hdfs://evil:8020"] in the pipeline file; if not, a writer '
        "of the table wants icefloe to read a foreign file"
    )


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
    with pytest.raises(TerminalError) as refused:
        io.new_input(path)
    assert f'write allowed_locations: ["file:///mnt/old", "{folder}"] in' in refused.value.sentence
    assert location_fault(folder) is None
    allowed = FilePlaces.of_table("s3://x/t", metadata_location="", warehouse=None, allowed_locations=[folder])
    assert allowed.real(path)


@pytest.mark.parametrize("path", ["file:///passwd", "s3://lake/../x/a", "http://evil/a"])
def test_no_line_is_proposed_that_would_allow_a_whole_disk_or_that_a_pipeline_file_cannot_have(path: str) -> None:
    with pytest.raises(TerminalError) as refused:
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


def places_of(folder: Path) -> FilePlaces:
    return FilePlaces(places=(FilePlace(scheme="file", authority="", path=str(folder).strip("/")),))


@pytest.mark.parametrize("name", ["a", "folder/a", "a b", "é", "a=1/x%20y"])
def test_a_file_behind_links_is_opened_where_they_led_when_they_were_followed(tmp_path: Path, name: str) -> None:
    real = tmp_path / "disk#1?" / "t" / name
    real.parent.mkdir(parents=True)
    real.write_bytes(b"rows")
    (tmp_path / "wh").symlink_to(tmp_path / "disk#1?")
    io = ConfinedIO(PyArrowFileIO(), places_of(tmp_path / "wh"), table="db.events")
    for location in (f"{tmp_path}/wh/t/{name}", f"file://{tmp_path}/wh/t/{name}"):
        found = io.new_input(location)
        assert (found.location, found.exists(), len(found)) == (location, True, 4)
        for seekable in (True, False):
            assert found.open(seekable).read() == b"rows"
    real.unlink()
    assert not found.exists()
    with pytest.raises(FileNotFoundError):
        found.open()


def test_a_link_that_comes_after_the_check_is_not_followed(tmp_path: Path) -> None:
    inside, other = tmp_path / "t" / "data", tmp_path / "other"
    for folder in (inside, other):
        folder.mkdir(parents=True)
        (folder / "a").write_bytes(folder.name.encode())
    io = ConfinedIO(PyArrowFileIO(), places_of(tmp_path / "t"), table="db.events")
    opener = io.new_input(f"file://{inside}/a")
    assert opener.open().read() == b"data"
    (inside / "a").rename(inside / "b")
    (inside / "a").symlink_to(other / "a")
    with pytest.raises(OSError, match="symbolic links"):
        opener.open()
    inside.rename(tmp_path / "away")
    inside.symlink_to(other)
    with pytest.raises(NotADirectoryError):
        opener.open()
    lead = rf"names the file file://{inside}/a \(links lead to file://{other}/a\), which is outside"
    with pytest.raises(TerminalError, match=lead):
        io.new_input(f"file://{inside}/a")


def test_a_pipe_or_a_folder_is_an_error_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    (tmp_path / "b").mkdir()
    io = ConfinedIO(PyArrowFileIO(), places_of(tmp_path), table="db.events")
    for name in ("a", "b"):
        with pytest.raises(OSError, match=f"{tmp_path}/{name} is not a file"):
            io.new_input(f"file://{tmp_path}/{name}").open()


def test_a_deletion_vector_behind_a_link_is_refused_and_the_folder_it_is_in_is_proposed(tmp_path: Path) -> None:
    for folder in ("t", "other"):
        (tmp_path / folder).mkdir()
    vector = write_deletion_vector(tmp_path / "other" / "v.puffin", BitMap64([1]), data_file="a")
    (tmp_path / "t" / "v.puffin").symlink_to(vector.path)
    io = ConfinedIO(PyArrowFileIO(), places_of(tmp_path / "t"), table="db.events")
    linked = replace(vector, path=f"file://{tmp_path}/t/v.puffin")
    with pytest.raises(TerminalError) as refused:
        read_deletion_vectors([linked], io=io, table="db.events")
    assert f'write allowed_locations: ["file://{tmp_path}/other"] in' in refused.value.sentence
    allowed = FilePlaces(places=(*places_of(tmp_path / "t").places, *places_of(tmp_path / "other").places))
    io = ConfinedIO(PyArrowFileIO(), allowed, table="db.events")
    assert list(read_deletion_vectors([linked], io=io, table="db.events")[0]) == [1]


def test_tables_are_never_written() -> None:
    io = ConfinedIO(Unreachable(), LAKE, table="db.events")
    for write in (io.new_output, io.delete):
        with pytest.raises(NotImplementedError, match="icefloe only reads tables"):
            write("s3://lake/a")


def test_a_list_of_files_is_refused_by_the_first_that_lies_elsewhere() -> None:
    refuse_elsewhere(ConfinedIO(Unreachable(), LAKE, table="t"), ["s3://lake/a", "file:/mnt/old/b"])
    refuse_elsewhere(PyArrowFileIO(), ["anywhere://a"])
    with pytest.raises(TerminalError, match="names the file s3://other/b"):
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
