"""A new key is an entry of the schema and a field of the model: reading, faults, environment and Spark jobs follow."""

from dataclasses import dataclass

import pytest

from icefloe.batch import run_settings
from icefloe.batch.run_settings import RunSettings
from icefloe.errors import TerminalError
from icefloe.pipeline import validation
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.yaml_file import load_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class CalmPipeline(Pipeline):
    """A pipeline of a release with one key more."""

    calm: str = "dead"


@pytest.fixture(autouse=True)
def _published(monkeypatch: pytest.MonkeyPatch) -> None:
    published = validation.pipeline_schema()
    word = {"type": "string", "pattern": "^[a-z]+$", "x-expected": "a word"}
    published["properties"]["calm"] = {"anyOf": [word, {"$ref": "#/$defs/environment"}], "x-expected": "a word"}
    monkeypatch.setattr(validation, "pipeline_schema", lambda: {**published, "$defs": dict(published["$defs"])})
    monkeypatch.setattr(validation, "_validator", validation._validator.__wrapped__)


def test_it_is_read_and_has_its_default(write):
    assert CalmPipeline.of(load_yaml(write(calm="flat"))).calm == "flat"
    assert CalmPipeline.of(load_yaml(write())).calm == "dead"


def test_its_fault_is_a_sentence_with_a_line(write):
    path = write(calm=7)
    line = path.read_text().splitlines().index("calm: 7") + 1
    with pytest.raises(TerminalError) as caught:
        CalmPipeline.of(load_yaml(path))
    assert caught.value.sentence.startswith(f"{path}:{line}: calm must be a word, not 7")


def test_a_spark_job_finds_it_in_the_pipeline_of_its_settings(write, monkeypatch):
    pipeline = CalmPipeline.of(load_yaml(write(calm="${CALM}")), {"CALM": "flat"})
    monkeypatch.setattr(run_settings, "Pipeline", CalmPipeline)
    found = RunSettings.from_environment(RunSettings(pipeline=pipeline).to_environment()).pipeline
    assert isinstance(found, CalmPipeline)
    assert (found.calm, found == pipeline) == ("flat", True)
