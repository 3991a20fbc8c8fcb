"""Facts about a pipeline for the page, in the ``doc_json`` of one task, which Airflow keeps with the DAG."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from icefloe.errors import IcefloeError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.yaml_file import YamlFile

__all__ = ["PipelineFacts", "broken_document", "pipeline_facts_document"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    """The content or the fault of a DAG's pipeline file.

    Attributes:
        pipeline: with ``${ENV}`` unexpanded; None if the file makes no pipeline.
        sentence: the reason why it makes none.
        path: of the file.
    """

    pipeline: Pipeline | None = None
    sentence: str | None = None
    path: str | None = None

    @classmethod
    def of(cls, task_documents: Mapping[str, str]) -> Self:
        """The facts in the ``doc_json`` of a DAG's tasks; empty if another release wrote them."""
        for text in task_documents.values():
            document = _loaded(text)
            if document.get("version") != 1:
                continue
            if "sentence" in document:
                return cls(sentence=_without_folder(document["sentence"], document["path"]), path=document["path"])
            try:
                return cls(pipeline=pipeline_from_mapping(document["pipeline"]), path=document["pipeline"]["path"])
            except IcefloeError as error:
                return cls(sentence=f"this release cannot read the pipeline in the DAG: {error.sentence}")
            except (KeyError, TypeError) as error:
                kind = type(error).__name__
                return cls(sentence=f"this release cannot read the pipeline in the DAG ({kind})")
        return cls()


def pipeline_facts_document(pipeline: Pipeline) -> str:
    """The content of the file, with ``${ENV}`` unexpanded; a pipeline file holds no secrets."""
    return json.dumps({"version": 1, "pipeline": pipeline_to_mapping(pipeline)}, sort_keys=True)


def broken_document(path: Path, sentence: str) -> str:
    """The fault of a file that makes no pipeline."""
    return json.dumps({"version": 1, "path": str(path), "sentence": sentence}, sort_keys=True)


def _without_folder(sentence: str, path: str) -> str:
    """The sentence with the file's name only: the page shows the whole path next to it."""
    return sentence.replace(path, Path(path).name)


def _loaded(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def pipeline_to_mapping(pipeline: Pipeline) -> dict[str, Any]:
    """The content of the file, with ``${ENV}`` unexpanded; a pipeline file holds no secrets."""
    return {"path": pipeline.file.path, "data": pipeline.file.data}


def pipeline_from_mapping(mapping: Mapping[str, Any]) -> Pipeline:
    """The pipeline that such a mapping was made from; faults are reported without their lines.

    Raises:
        PipelineFileError: another release wrote the mapping, and this release does not accept it.
    """
    return Pipeline.of(YamlFile(path=mapping["path"], data=mapping["data"], lines={}), None)
