from pathlib import Path
from typing import Any

import pytest
import yaml

from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline
from icefloe.pipeline.url import place_parts


def pipeline(folder: Path, **keys: Any):
    document = {
        "version": 1, "name": "flights", "catalog": "lake", "table": "nyc.flights", "storage": "s3://lake/icefloe",
        "sink": {"type": "files", "path": keys.pop("path", "s3://lake/icefloe/changes")}, **keys,
    }  # fmt: skip
    path = folder / "flights.yaml"
    path.write_text(yaml.safe_dump(document))
    return Pipeline.load(path, environ={})


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"path": "s3://lake/icefloe/shuffled"},
        {"path": "s3://lake/icefloe-changes"},
        {"path": "s3://lake/nyc/flights_changes"},
        {"path": "s3://other/icefloe/shuffle/x"},
        {"checkpoint": "s3://lake/checkpoints"},
        {"checkpoint": "dynamodb://icefloe"},
        {"storage": "s3://lake", "path": "s3://lake/changes"},
        {"storage": "file:///var/icefloe", "path": "file:///var/changes"},
    ],
    ids=str,
)
def test_places_side_by_side_are_right(tmp_path: Path, keys) -> None:
    check_pipeline(pipeline(tmp_path, **keys), "s3://lake/nyc/flights")


@pytest.mark.parametrize(
    ("keys", "inner", "outer"),
    [
        ({"path": "s3://lake/icefloe/shuffle/flights/0"}, "sink.path", "the shuffle folder"),
        ({"path": "s3://lake/icefloe/shuffle"}, "sink.path", "the shuffle folder"),
        ({"path": "s3://lake//icefloe/shuffle/"}, "sink.path", "the shuffle folder"),
        ({"path": "s3://lake/icefloe/shuf%66le/x"}, "sink.path", "the shuffle folder"),
        ({"path": "s3://lake/icefloe/checkpoints/flights/x"}, "sink.path", "the checkpoint"),
        ({"path": "s3://lake/icefloe"}, "the checkpoint", "sink.path"),
        ({"path": "s3://lake"}, "the checkpoint", "sink.path"),
        ({"checkpoint": "s3://lake/icefloe/shuffle/flights"}, "the checkpoint", "the shuffle folder"),
        ({"checkpoint": "s3://lake/icefloe/changes/checkpoint"}, "the checkpoint", "sink.path"),
        ({"path": "s3://lake/nyc/flights/changes"}, "sink.path", "the location of table nyc.flights"),
        ({"path": "s3://lake/nyc"}, "the location of table nyc.flights", "sink.path"),
        ({"storage": "s3://lake/nyc/flights/icefloe"}, "the checkpoint", "the location of table nyc.flights"),
    ],
    ids=str,
)
def test_a_place_inside_another_is_refused_with_both(tmp_path: Path, keys, inner: str, outer: str) -> None:
    with pytest.raises(TerminalError) as caught:
        check_pipeline(pipeline(tmp_path, **keys), "s3a://lake/nyc/flights/")
    assert f" {inner}, " in caught.value.sentence
    assert f" is inside {outer}, " in caught.value.sentence


def delivering(folder: Path, letters: str, **keys: Any):
    sink = {"type": "opensearch", "url": "https://search", "index": "flights", "dead_letters": {"path": letters}}
    return pipeline(folder, path="", sink=sink, **keys)


@pytest.mark.parametrize(
    ("letters", "keys", "outer"),
    [
        # Their batches have the same names, and a cleanup would delete the letters with the staged files.
        ("s3://lake/changes", {"changelog": {"path": "s3://lake/changes"}}, "the place of staged batches"),
        ("s3://lake/icefloe/staged/flights", {}, "the place of staged batches"),
        ("s3://lake/icefloe/shuffle/dead", {}, "the shuffle folder"),
        ("s3://lake/nyc/flights/dead", {}, "the location of table nyc.flights"),
    ],
    ids=str,
)
def test_dead_letters_inside_a_place_whose_files_are_deleted_are_refused(
    tmp_path: Path, letters: str, keys: dict[str, Any], outer: str
) -> None:
    with pytest.raises(TerminalError) as caught:
        check_pipeline(delivering(tmp_path, letters, **keys), "s3://lake/nyc/flights")
    assert "sink.dead_letters.path, " in caught.value.sentence
    assert outer in caught.value.sentence


def test_dead_letters_next_to_the_other_places_are_right(tmp_path: Path) -> None:
    check_pipeline(delivering(tmp_path, "s3://lake/icefloe/dead/flights"), "s3://lake/nyc/flights")


@pytest.mark.parametrize(
    ("path", "location", "said"),
    [("link/shuffle/x", None, "sink.path"), ("warehouse/events/changes", "{}/warehouse/events", "location of table")],
)
def test_neither_a_symbolic_link_nor_a_location_without_a_scheme_hides_a_place(
    tmp_path: Path, path: str, location: str | None, said: str
) -> None:
    (tmp_path / "storage" / "shuffle").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "storage")
    keys = {"storage": f"file://{tmp_path}/storage", "path": f"file://{tmp_path}/{path}"}
    with pytest.raises(TerminalError, match=said):
        check_pipeline(pipeline(tmp_path, **keys), location and location.format(tmp_path))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/a", "s3://b/a/"),
        ("abfs://c@acc.dfs.core.windows.net/a", "wasbs://c@acc.blob.core.windows.net/a"),
        ("gs://b/a/../c", "gcs://b/c"),
        ("file:/a/b", "file:///a//b"),
        ("file://LocalHost/a", "file:///a"),
        ("memory://x/a", "MEMORY://x/a"),
        ("abfs://c@Acc.dfs.Core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a"),
        ("hdfs://Names:8020/a", "hdfs://names:8020/a"),
    ],
)
def test_two_ways_to_write_one_place_are_one(one: str, other: str) -> None:
    assert place_parts(one) == place_parts(other)


@pytest.mark.parametrize(
    ("one", "other"), [("s3://Lake/a", "s3://lake/a"), ("gs://b/A", "gs://b/a"), ("abfs://C@acc/a", "abfs://c@acc/a")]
)
def test_names_of_buckets_and_containers_count_with_their_case(one: str, other: str) -> None:
    assert place_parts(one) != place_parts(other)
