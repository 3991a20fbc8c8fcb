from pathlib import Path

import pytest

from icefloe.errors import TerminalError, UsageError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import find_pipeline, pipeline_paths


def test_the_name_is_the_stem_unless_the_file_says_otherwise(write):
    assert Pipeline.load(write(stem="flights-2")).name == "flights-2"
    assert Pipeline.load(write(name="other")).name == "other"


def test_an_environment_resolves_references_at_once(write):
    assert Pipeline.load(write(storage="s3://${B}"), environ={"B": "lake"}).storage == "s3://lake"


def test_an_error_names_file_line_and_key(write):
    path = write("version: 1\ncatalog: x\ntabel: a.b\n")
    with pytest.raises(TerminalError) as caught:
        Pipeline.load(path)
    assert (
        f"{path}:3: unknown key 'tabel'; the nearest known key is 'table': correct or remove it"
        in caught.value.sentence
    )
    assert caught.value.exit_code == 65


def test_a_pipeline_is_found_by_path_stem_and_name(write, tmp_path):
    path = write(stem="flights", name="nyc_changes")
    (tmp_path / "broken.yml").write_text("a: [")
    assert find_pipeline(path, tmp_path) == path
    assert find_pipeline(str(path), Path("elsewhere")) == path
    assert find_pipeline("flights", tmp_path) == path
    assert find_pipeline("nyc_changes", tmp_path) == path
    assert find_pipeline("broken", tmp_path) == tmp_path / "broken.yml"


def test_a_text_that_two_files_answer_to_names_no_pipeline(write, tmp_path):
    named = write(stem="a", name="b")
    path = write(stem="b", name="c")
    with pytest.raises(UsageError) as caught:
        find_pipeline("b", tmp_path)
    assert caught.value.sentence == f"'b' may mean {named} or {path}: give the path of the one that you mean"
    assert [find_pipeline(text, tmp_path) for text in ("a", "c", named, path)] == [named, path, named, path]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "flight",
            "there is no pipeline 'flight' in {folder}: the nearest is 'flights'; give a name in that folder or a path",
        ),
        ("no/such.yaml", "there is no pipeline file no/such.yaml: check the path"),
    ],
)
def test_an_unknown_pipeline_is_an_error_of_usage(write, tmp_path, name, sentence):
    write()
    with pytest.raises(UsageError) as caught:
        find_pipeline(name, tmp_path)
    assert caught.value.sentence == sentence.format(folder=tmp_path)
    assert caught.value.exit_code == 2


def test_a_folder_that_is_not_there_holds_no_pipeline(tmp_path):
    assert pipeline_paths(tmp_path / "none") == []
    with pytest.raises(UsageError, match=r"there are no \.yaml files in it"):
        find_pipeline("x", tmp_path / "none")
