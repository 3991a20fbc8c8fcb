import os
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.confined_io import ConfinedIO, FilePlace, FilePlaces


@pytest.mark.parametrize(
    "forms",
    [
        ("/data/t", "file:/data/t", "file:///data/t", "file:///data/t/", "file:///data/./x/../t", "FILE:///data/t",
         "file://localhost/data/t", "file://LocalHost/data/t/"),
        ("s3://lake/t", "s3a://lake/t", "s3n://lake/t/", "S3://lake/t"),
        ("gs://lake/t", "gcs://lake/t"),
        (
            "abfss://box@account.dfs.core.windows.net/t", "ABFS://box@Account.DFS.core.windows.net/t",
            "wasb://box@account.blob.core.windows.net/t", "wasbs://box@account.Blob.Core.windows.net/t",
        ),
        ("hdfs://names.example:8020/t", "hdfs://Names.Example:8020/t"),
    ],
)  # fmt: skip
def test_one_place_in_several_forms_is_one_place(forms: tuple[str, ...]) -> None:
    assert len({FilePlace.of(form) for form in forms}) == 1
    assert None not in {FilePlace.of(form) for form in forms}


@pytest.mark.parametrize(
    "location",
    [
        "", " s3://lake/t", "s3://la\tke/t", "s3://lake/t\n", "\x00s3://lake/t",
        "s3://lake/../other/t", "s3://lake/t/./a", "s3://lake/t?/../../other", "s3://lake/a\\..\\b",
        "file://host/data/t", "file:data/t", "file:///data/t?/../../../data/t", "file:///data/t#/../x", "s3://[/t",
        "s3://lake#x/t", "s3://lake?x/t",
    ],
)  # fmt: skip
def test_a_location_that_can_be_read_in_two_ways_is_no_place(location: str) -> None:
    assert FilePlace.of(location) is None
    assert not FilePlaces(places=(FilePlace(scheme="s3", authority="lake"),)).real(location)


def places(
    location: str, *, metadata: str | None = None, warehouse: str | None = None, allowed: tuple[str, ...] = ()
) -> FilePlaces:
    metadata_location = metadata or f"{location}/metadata/1.metadata.json"
    return FilePlaces.of_table(
        location, metadata_location=metadata_location, warehouse=warehouse, allowed_locations=allowed
    )


S3 = {"location": "s3://lake/t"}
LOCAL = {"location": "file:///data/wh/t"}
ALLOWED = {**S3, "allowed": ("s3://archive/events/", "file:///mnt/old", "s3://lists/a.parquet", "file:///b.parquet")}


@pytest.mark.parametrize(
    ("keys", "held", "foreign"),
    [
        pytest.param(
            S3,
            ["s3://lake/elsewhere/a.parquet", "s3a://lake/t/a.parquet", "s3://lake"],
            [
                "s3://lake2/t/a.parquet", "s3://lake.evil.example/t", "s3://lake@evil/t", "s3://lake:80/t",
                "gs://lake/t/a.parquet", "hdfs://lake/t/a.parquet", "http://lake/t/a.parquet",
                "file:///lake/t/a.parquet", "/lake/t/a.parquet",
            ],
            id="the bucket of a table",
        ),
        pytest.param(
            {**S3, "warehouse": "s3a://hive/warehouse"}, ["s3://hive/old/t/a.parquet"], ["s3://other/t/a.parquet"],
            id="files below the warehouse's bucket, of a migrated table",
        ),
        pytest.param(
            {**S3, "metadata": "s3://metadata/t/1.metadata.json"}, ["s3://metadata/t/m.avro", "s3://lake/t/a"], [],
            id="the metadata in the catalog",
        ),
        pytest.param(
            LOCAL,
            ["/data/wh/t/data/a", "file:/data/wh/t/data/a", "file:///data/wh/t/x/../data/a"],
            ["file:///data/wh/t2/a", "file:///data/wh/t/../other/a", "/etc/passwd"],
            id="a local table's own folder",
        ),
        pytest.param(
            {**LOCAL, "warehouse": "file:///data/wh"}, ["/data/wh/renamed/a"], ["/data/a"], id="a local warehouse"
        ),
        pytest.param({**LOCAL, "warehouse": "file:///"}, [], ["/data/wh/renamed/a"], id="no warehouse of a whole disk"),
        pytest.param(
            ALLOWED,
            ["s3a://archive/events/a.parquet", "/mnt/old/a.parquet", "s3://lists/a.parquet", "/b.parquet"],
            ["s3://archive/events2/a.parquet", "s3://archive/a.parquet", "s3://lists/b.parquet", "/a.parquet"],
            id="an allowed folder and not its bucket, an allowed file and not its neighbours",
        ),
        *(
            pytest.param(
                {"location": claimed, "metadata": metadata}, [], ["/etc/passwd", "/data/wh/other/a"],
                id=f"a claim of {claimed} with {metadata}",
            )
            for claimed in ("file:///", "/", "file:///data", "/data/wh")
            for metadata in ("file:///data/wh/t/metadata/1.metadata.json", "s3://lake/t/metadata/1.metadata.json")
        ),
    ],
)  # fmt: skip
def test_a_table_reads_files_in_its_places_only(keys: dict[str, Any], held: list[str], foreign: list[str]) -> None:
    found = places(**keys)
    assert [path for path in (*held, *foreign) if found.real(path)] == held


@pytest.mark.parametrize("warehouse", [None, "", "lake", "arn:aws:s3tables:us-east-1:1:bucket/b", "1:s3tables/b", "."])
def test_a_warehouse_that_is_a_name_adds_nothing(warehouse: str | None) -> None:
    assert places("s3://lake/t", warehouse=warehouse) == places("s3://lake/t")


@pytest.mark.parametrize("name", ["..", ".", "a?/../../other", "a#b", "a\\b", "\ta", "a b", "", "\u2025"])
def test_a_name_in_a_held_folder_is_judged_like_any_location(name: str) -> None:
    found = places("s3://lake/t", allowed=("file:///mnt/old",))
    for folder in ("s3://lake/t/data", "file:///mnt/old"):
        place = FilePlace.of(f"{folder}/{name}")
        assert (found.real(f"{folder}/{name}") is not None) is (
            place is not None and any(p.holds(place) for p in found.places)
        )


LINKS = [
    # links by their targets, the file, keys of the places, and if the file may be read
    ({}, "wh/t/data/a", {}, True),
    ({"wh/t/data/a": "other/a"}, "wh/t/data/a", {}, False),
    ({"wh/t/data/a": "../../../other/a"}, "wh/t/data/a", {}, False),
    ({"wh/t/data/a": "wh/t/data/b"}, "wh/t/data/a", {}, True),
    ({"wh/t/data": "other"}, "wh/t/data/a", {}, False),
    ({"wh/t/data/day=1": "other"}, "wh/t/data/day=1/a", {"warehouse": "wh"}, False),
    ({"wh/t/data/day=1": "other"}, "wh/t/data/day=1/../../data/a", {}, True),
    ({"wh/t/data": "wh/u"}, "wh/t/data/a", {}, False),
    ({"wh/t/data": "wh/u"}, "wh/t/data/a", {"warehouse": "wh"}, True),
    ({"wh/t/metadata": "other"}, "wh/t/metadata/a", {}, False),
    ({"wh/t/metadata": "other"}, "wh/t/metadata/a", {"location": "elsewhere"}, False),
    ({"wh/t": "other"}, "wh/t/data/a", {}, False),
    ({"wh/t": "other"}, "wh/t/data/a", {"warehouse": "wh"}, False),
    ({"wh/t": "other"}, "wh/t/data/a", {"warehouse": "wh", "allowed": ("other",)}, True),
    ({"wh/t": "other"}, "wh/t/data/a", {"allowed": ("wh/t",)}, True),
    ({"wh": "disk"}, "wh/t/data/a", {"warehouse": "wh"}, True),
    ({"wh": "disk"}, "disk/t/data/a", {"warehouse": "wh"}, True),
    ({"wh": "disk", "disk/t/data": "other"}, "wh/t/data/a", {"warehouse": "wh"}, False),
    ({"old": "other"}, "old/a", {"allowed": ("old",)}, True),
    ({"old": "other"}, "other/a", {"allowed": ("old",)}, True),
    ({"wh/t/old": "other"}, "wh/t/old/a", {"allowed": ("wh/t/old",)}, True),
    ({"alias": "wh/t/data"}, "alias/a", {}, True),
    ({"wh/t/data/a": "wh/t/data/a"}, "wh/t/data/a", {}, True),
]


@pytest.mark.parametrize("scheme", ["", "FILE://localhost"])
@pytest.mark.parametrize(("links", "file", "keys", "is_held"), LINKS)
def test_links_are_followed_before_a_file_is_compared_with_its_places(
    tmp_path: Path, scheme: str, links: dict[str, str], file: str, keys: dict[str, object], is_held: bool
) -> None:
    for name, target in links.items():
        link = tmp_path / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target if target.startswith("..") else tmp_path / target)
    root = f"{scheme}{tmp_path}"
    allowed = keys.get("allowed", ())
    assert isinstance(allowed, tuple)
    found = places(
        f"{root}/{keys.get('location', 'wh/t')}",
        metadata=f"{root}/wh/t/metadata/1.metadata.json",
        warehouse=f"{root}/{keys['warehouse']}" if "warehouse" in keys else None,
        allowed=tuple(f"{root}/{each}" for each in allowed),
    )
    real = found.real(f"{root}/{file}")
    assert (real is not None) is is_held
    if real is not None and file != "wh/t/data/a":
        assert real.path == str((tmp_path / file.replace("day=1/..", ".")).resolve()).strip("/")


@pytest.mark.parametrize("character", ["#", "?", "%", " "])
def test_a_folder_whose_name_goes_on_after_an_odd_character_is_another_folder(character: str) -> None:
    allowed = places_of(Path("/data/t"))
    assert allowed.real(f"file:///data/t/a{character}b/c") is not None
    assert allowed.real(f"file:///data/t{character}b/c") is None


def places_of(folder: Path) -> FilePlaces:
    return FilePlaces(places=(FilePlace(scheme="file", authority="", path=str(folder).strip("/")),))


LAKE = FilePlaces(places=(FilePlace(scheme="s3", authority="lake"), *places_of(Path("/mnt/old")).places))


class Unreachable(PyArrowFileIO):
    def new_input(self, location: str) -> object:  # type: ignore[override]
        raise AssertionError(f"a request went to {location}")


def test_a_file_elsewhere_is_refused_before_any_request_in_a_sentence_that_says_what_to_do() -> None:
    io = ConfinedIO(Unreachable(), LAKE, table="db.events")
    with pytest.raises(TerminalError) as refused:
        io.new_input("hdfs://evil:8020/a.parquet")
    assert refused.value.sentence == (
        "table db.events names the file hdfs://evil:8020/a.parquet, which is outside s3://lake, file:///mnt/old: if it "
        "belongs to the table, move it or add its folder to allowed_locations of the pipeline file; if not, a writer "
        "of the table wants icefloe to read a foreign file"
    )


def test_a_file_of_localhost_is_opened_where_it_was_judged_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"rows")
    below = tmp_path / "cwd" / f"localhost{tmp_path}"
    below.mkdir(parents=True)
    (below / "a").write_bytes(b"what PyIceberg opens: a path relative to the working directory")
    monkeypatch.chdir(tmp_path / "cwd")
    io = ConfinedIO(PyArrowFileIO({"s3.region": "x"}), places_of(tmp_path), table="db.events")
    assert io.properties == {"s3.region": "x"}
    for host in ("", "localhost", "LOCALHOST"):
        assert io.new_input(f"file://{host}{tmp_path}/a").open().read() == b"rows"


@pytest.mark.parametrize("name", ["a", "é b", "a=1/x%20y"])
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


def test_tables_are_never_written() -> None:
    io = ConfinedIO(Unreachable(), LAKE, table="db.events")
    for write in (io.new_output, io.delete):
        with pytest.raises(NotImplementedError, match="icefloe only reads tables"):
            write("s3://lake/a")
