from pathlib import Path

import pytest

from icefloe.iceberg.catalog.confined_io import FilePlace, FilePlaces


@pytest.mark.parametrize(
    "forms",
    [
        ("/data/t", "file:/data/t", "file:///data/t", "file:///data/t/", "file:///data/./x/../t", "FILE:///data/t",
         "file://localhost/data/t", "file://LocalHost/data/t/"),
        ("s3://lake/t", "s3a://lake/t", "s3n://lake/t/", "S3://lake/t"),
        ("gs://lake/t", "gcs://lake/t"),
        (
            "abfss://box@account.dfs.core.windows.net/t", "abfs://box@account.dfs.core.windows.net/t",
            "wasbs://box@account.blob.core.windows.net/t", "wasb://box@account.blob.core.windows.net/t",
            "ABFS://box@Account.DFS.core.windows.net/t", "wasbs://box@account.Blob.Core.windows.net/t",
        ),
        ("hdfs://names.example:8020/t", "hdfs://Names.Example:8020/t"),
    ],
)  # fmt: skip
def test_one_place_in_several_forms_is_one_place(forms: tuple[str, ...]) -> None:
    assert len({FilePlace.of(form) for form in forms}) == 1
    assert None not in {FilePlace.of(form) for form in forms}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://lake/t", "s3://Lake/t"),
        ("s3://lake/t", "s3://lake/T"),
        ("gs://lake/t", "gs://LAKE/t"),
        ("abfs://box@account.dfs.core.windows.net/t", "abfs://Box@account.dfs.core.windows.net/t"),
        ("file:///data/t", "file:///Data/t"),
    ],
)
def test_names_of_buckets_containers_and_folders_count_with_their_case(one: str, other: str) -> None:
    assert FilePlace.of(one) is not None
    assert FilePlace.of(one) != FilePlace.of(other)


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


@pytest.mark.parametrize(
    ("path", "is_held"),
    [
        ("s3://lake/elsewhere/a.parquet", True),
        ("s3a://lake/t/a.parquet", True),
        ("s3://lake", True),
        ("s3://lake2/t/a.parquet", False),
        ("s3://lake.evil.example/t", False),
        ("s3://lake@evil/t", False),
        ("s3://lake:80/t", False),
        ("gs://lake/t/a.parquet", False),
        ("hdfs://lake/t/a.parquet", False),
        ("http://lake/t/a.parquet", False),
        ("file:///lake/t/a.parquet", False),
        ("/lake/t/a.parquet", False),
    ],
)
def test_the_bucket_of_a_table_is_its_place(path: str, is_held: bool) -> None:
    assert (places("s3://lake/t").real(path) is not None) is is_held


def test_a_migrated_tables_files_below_the_warehouses_bucket_are_read() -> None:
    found = places("s3://lake/t", warehouse="s3a://hive/warehouse")
    assert found.real("s3://hive/old/t/a.parquet")
    assert not found.real("s3://other/t/a.parquet")


@pytest.mark.parametrize("warehouse", [None, "", "lake", "arn:aws:s3tables:us-east-1:1:bucket/b", "1:s3tables/b", "."])
def test_a_warehouse_that_is_a_name_adds_nothing(warehouse: str | None) -> None:
    assert places("s3://lake/t", warehouse=warehouse) == places("s3://lake/t")


def test_the_place_of_the_metadata_in_the_catalog_is_a_place_too() -> None:
    found = places("s3://lake/t", metadata="s3://metadata/t/1.metadata.json")
    assert found.real("s3://metadata/t/manifest.avro")
    assert found.real("s3://lake/t/a.parquet")


@pytest.mark.parametrize(
    ("path", "is_held"),
    [
        ("/data/wh/t/data/a.parquet", True),
        ("file:/data/wh/t/data/a.parquet", True),
        ("file:///data/wh/t/x/../data/a.parquet", True),
        ("file:///data/wh/t2/a.parquet", False),
        ("file:///data/wh/t/../other/a.parquet", False),
        ("/etc/passwd", False),
    ],
)
def test_a_local_tables_place_is_its_own_folder(path: str, is_held: bool) -> None:
    assert (places("file:///data/wh/t").real(path) is not None) is is_held


def test_a_local_warehouse_is_a_place_with_all_below_it() -> None:
    found = places("file:///data/wh/t", warehouse="file:///data/wh")
    assert found.real("/data/wh/renamed/a.parquet")
    assert not found.real("/data/a.parquet")
    assert places("file:///data/wh/t", warehouse="file:///") == places("file:///data/wh/t")


@pytest.mark.parametrize("claimed", ["file:///", "/", "file:///data", "file:///etc", "/data/wh"])
def test_a_table_cannot_claim_more_of_a_disk_than_the_folder_above_its_metadata(claimed: str) -> None:
    for metadata in ("file:///data/wh/t/metadata/1.metadata.json", "s3://lake/t/metadata/1.metadata.json"):
        found = places(claimed, metadata=metadata)
        assert not found.real("/etc/passwd")
        assert not found.real("/data/wh/other/a.parquet")


def test_an_allowed_place_is_a_folder_and_not_its_bucket() -> None:
    found = places("s3://lake/t", allowed=("s3://archive/events/", "file:///mnt/old"))
    assert found.real("s3a://archive/events/a.parquet")
    assert found.real("/mnt/old/a.parquet")
    assert not found.real("s3://archive/events2/a.parquet")
    assert not found.real("s3://archive/a.parquet")
    assert [str(place) for place in found.places] == ["s3://lake", "s3://archive/events", "file:///mnt/old"]


def test_a_file_that_is_allowed_by_its_name_is_read_and_its_neighbours_are_not() -> None:
    found = places("s3://lake/t", allowed=("s3://archive/a.parquet", "file:///b.parquet"))
    assert found.real("s3://archive/a.parquet")
    assert found.real("/b.parquet")
    assert not found.real("s3://archive/b.parquet")
    assert not found.real("/a.parquet")


@pytest.mark.parametrize("name", ["..", ".", "a?/../../other", "a#b", "a;b", "a\\b", "\ta", "a b", "", "\u2025"])
def test_a_name_in_a_held_folder_is_judged_like_any_location(name: str) -> None:
    found = places("s3://lake/t", allowed=("file:///mnt/old",))
    for folder in ("s3://lake/t/data", "file:///mnt/old", "/mnt/old"):
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
    ({"wh/t/data/a": "wh/t/data/b", "wh/t/data/b": "other/a"}, "wh/t/data/a", {}, False),
    ({"wh/t/data": "other"}, "wh/t/data/a", {}, False),
    ({"wh/t/data/day=1": "other"}, "wh/t/data/day=1/a", {"warehouse": "wh"}, False),
    ({"wh/t/data/day=1": "other"}, "wh/t/data/day=1/../../data/a", {}, True),
    ({"wh/t/data/day=1": "other"}, "wh/t/data/day=1/../a", {}, True),
    ({"wh/t/data": "wh/u"}, "wh/t/data/a", {}, False),
    ({"wh/t/data": "wh/u"}, "wh/t/data/a", {"warehouse": "wh"}, True),
    ({"wh/t/metadata": "other"}, "wh/t/metadata/a", {}, False),
    ({"wh/t/metadata": "other"}, "wh/t/metadata/a", {"location": "elsewhere"}, False),
    ({"wh/t": "other"}, "wh/t/data/a", {}, False),
    ({"wh/t": "other"}, "wh/t/metadata/a", {"location": "elsewhere"}, False),
    ({"wh/t": "other"}, "wh/t/data/a", {"warehouse": "wh"}, False),
    ({"wh/t": "other"}, "wh/t/data/a", {"warehouse": "wh", "allowed": ("other",)}, True),
    ({"wh/t": "other"}, "wh/t/data/a", {"allowed": ("wh/t",)}, True),
    ({"wh/t": "wh/u"}, "wh/t/data/a", {"warehouse": "wh"}, True),
    ({"wh": "disk"}, "wh/t/data/a", {}, True),
    ({"wh": "disk"}, "wh/t/data/a", {"warehouse": "wh"}, True),
    ({"wh": "disk"}, "disk/t/data/a", {"warehouse": "wh"}, True),
    ({"wh": "disk"}, "disk/t/data/a", {}, True),
    ({"wh": "disk", "disk/t/data": "other"}, "wh/t/data/a", {"warehouse": "wh"}, False),
    ({"old": "other"}, "old/a", {"allowed": ("old",)}, True),
    ({"old": "other"}, "other/a", {"allowed": ("old",)}, True),
    ({"old": "other"}, "old/a", {}, False),
    ({"wh/t/old": "other"}, "wh/t/old/a", {"allowed": ("wh/t/old",)}, True),
    ({"wh/t/old": "other"}, "wh/t/old/a", {"warehouse": "wh", "allowed": ("wh/t/old",)}, True),
    ({"alias": "wh/t/data"}, "alias/a", {}, True),
    ({"wh/t/data/a": "wh/t/data/a"}, "wh/t/data/a", {}, True),
]


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "FILE://localhost"])
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


@pytest.mark.parametrize("character", ["#", "?", ";", "%", "+", " "])
def test_a_folder_whose_name_goes_on_after_an_odd_character_is_another_folder(character: str) -> None:
    allowed = FilePlaces(places=(FilePlace(scheme="file", authority="", path="data/t"),))
    assert allowed.real(f"file:///data/t/a{character}b/c") is not None
    assert allowed.real(f"file:///data/t{character}b/c") is None
