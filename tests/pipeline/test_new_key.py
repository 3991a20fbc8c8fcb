"""A new key is an entry of the schema and a field of the model: reading, checks, environment and lines follow."""

from dataclasses import dataclass, fields

import pytest

from icefloe.pipeline import schema
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.yaml_file import PipelineFileError, load_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class CalmPipeline(Pipeline):
    """A pipeline of a release with one key more."""

    calm: str = "dead"


@pytest.fixture(autouse=True)
def _published(monkeypatch: pytest.MonkeyPatch) -> None:
    published = schema.pipeline_schema()
    word = {"type": "string", "pattern": "^[a-z]+$", "x-expected": "a word"}
    published["properties"]["calm"] = {"anyOf": [word, {"$ref": "#/$defs/environment"}], "x-expected": "a word"}
    monkeypatch.setattr(schema, "pipeline_schema", lambda: {**published, "$defs": dict(published["$defs"])})
    for cached in ("_validator", "_errors", "_key_places"):
        monkeypatch.setattr(schema, cached, getattr(schema, cached).__wrapped__)


def test_it_is_read_and_has_its_default(write):
    assert CalmPipeline.of(load_yaml(write(calm="flat"))).calm == "flat"
    assert CalmPipeline.of(load_yaml(write())).calm == "dead"


def test_its_value_may_come_from_the_environment(write):
    pipeline = CalmPipeline.of(load_yaml(write(calm="${CALM}")))
    assert pipeline.calm == "${CALM}"
    assert pipeline.expanded({"CALM": "flat"}).calm == "flat"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"calm": 7}, "calm must be a word, not 7"),
        ({"clam": "flat"}, "unknown key 'clam'; the nearest known key is 'calm'"),
    ],
)
def test_its_faults_are_sentences_with_a_line(write, keys, sentence):
    path = write(**keys)
    line = 1 + [each.partition(":")[0] for each in path.read_text().splitlines()].index(*keys)
    with pytest.raises(PipelineFileError) as caught:
        CalmPipeline.of(load_yaml(path))
    assert caught.value.sentence.startswith(f"{path}:{line}: {sentence}")


def test_the_keys_of_the_schema_are_the_fields_of_the_model():
    written = {each.name for each in fields(CalmPipeline)} - {"file", "is_expanded", "hidden"}
    assert written == set(schema.pipeline_schema()["properties"])
