from pathlib import Path

import pytest

from icefloe.errors import IcefloeError, NotBuiltError, TerminalError, TransientError, about_key
from icefloe.pipeline.model import Pipeline


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    path = tmp_path / "events.yaml"
    path.write_text(
        "version: 1\ncatalog: lake\ntable: db.events\nfilter: id > 3\nstorage: s3://lake/icefloe\n"
        "sink: {type: files, path: s3://lake/changes}\n"
    )
    return Pipeline.load(path)


def test_an_error_about_a_key_begins_with_file_and_line_and_keeps_class_and_facts(pipeline: Pipeline) -> None:
    with pytest.raises(NotBuiltError) as caught, pipeline.with_lines(), about_key("filter"):
        raise NotBuiltError("filter names a geometry", column="place")
    assert caught.value.sentence == f"{pipeline.path}:4: filter names a geometry"
    assert (caught.value.line, caught.value.key, caught.value.column) == (4, "filter", "place")


@pytest.mark.parametrize(
    "error",
    [TerminalError("a manifest is gone"), TransientError("busy"), TerminalError("a.yaml:3: x", key="x", line=3)],
)
def test_other_errors_pass_as_they_are(pipeline: Pipeline, error: IcefloeError) -> None:
    with pytest.raises(IcefloeError) as caught, pipeline.with_lines():
        raise error
    assert caught.value is error


def test_the_innermost_key_is_the_reason(pipeline: Pipeline) -> None:
    with pytest.raises(TerminalError) as caught, about_key("columns"), about_key("filter"):
        raise TerminalError("x")
    assert caught.value.key == "filter"
