"""A pipeline as plain JSON values, for the triggerer, which need not see the pipeline file."""

from collections.abc import Mapping
from typing import Any

from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.yaml_file import YamlFile

__all__ = ["pipeline_from_mapping", "pipeline_to_mapping"]


def pipeline_to_mapping(pipeline: Pipeline) -> dict[str, Any]:
    """The content of the file, with ``${ENV}`` unexpanded; a pipeline file holds no secrets."""
    return {"path": pipeline.file.path, "data": pipeline.file.data}


def pipeline_from_mapping(mapping: Mapping[str, Any]) -> Pipeline:
    """The pipeline that such a mapping was made from; faults are reported without their lines.

    Raises:
        PipelineFileError: another release wrote the mapping, and this release does not accept it.
    """
    return Pipeline.of(YamlFile(path=mapping["path"], data=mapping["data"], lines={}), None)
