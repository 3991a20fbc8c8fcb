"""The results of tasks, passed on as XComs."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypedDict

from icefloe.errors import IcefloeError, TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.yaml_file import YamlFile

__all__ = [
    "CommittedBatch",
    "PipelineFacts",
    "PlanResult",
    "beside",
    "broken_document",
    "given_by_plan",
    "pipeline_facts_document",
]


class PlanResult(TypedDict):
    """A batch that plan opened; snapshot ids are text, as browsers round large numbers."""

    route: str
    plan_uri: str
    batch_number: int
    backfill_id: str | None
    after_snapshot_id: str | None
    up_to_snapshot_id: str | None
    steps: int
    map_tasks: int
    num_partitions: int
    checkpoint_uri: str
    sink_path: object


class NothingToDo(TypedDict):
    """No batch."""

    route: str
    plan_uri: None
    was_delivered_before: bool
    checkpoint_uri: str


class CommittedBatch(TypedDict):
    """A committed batch, and the extra of its asset event.

    Attributes:
        sink_path: the folder of the batch's files: the files sink, or where the batch is staged.
        delivery: what the sink took; None if the files are the sink.
        changed_partitions: paths of the table's partitions that may have changes; None: any may.
    """

    batch_number: int
    backfill_id: str | None
    route: str
    after_snapshot_id: str | None
    up_to_snapshot_id: str | None
    steps: int
    counts: dict[str, int]
    checkpoint_uri: str
    sink: str
    sink_path: object
    delivery: dict[str, object] | None
    changed_partitions: list[str] | None


def beside(task_id: str, name: str) -> str:
    """The id of another task of the same batch: in a task group, both have the prefix of the group.

    >>> beside("flights.commit", "plan"), beside("commit", "plan")
    ('flights.plan', 'plan')
    """
    group, dot, _ = task_id.rpartition(".")
    return f"{group}{dot}{name}"


def given_by_plan(found: PlanResult | None) -> PlanResult:
    """The result of plan, as a later task pulled it."""
    if found is None:
        raise TerminalError("plan returned no batch: it was marked as success or its XCom was deleted; clear plan")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    """The content or the fault of a DAG's pipeline file.

    Attributes:
        pipeline: with ``${ENV}`` unexpanded; None if the file makes no pipeline.
        sentence: why it makes none.
    """

    pipeline: Pipeline | None = None
    sentence: str | None = None
    path: str | None = None

    @classmethod
    def by_group(cls, task_documents: Mapping[str, str]) -> dict[str, Self]:
        """The facts in tasks' ``doc_json``, by task group; ``""`` is none. Those of another release are left out."""
        facts = {}
        for task_id, text in task_documents.items():
            # A DAG of somebody else may have a document of its own, or none that can be read.
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                document = json.loads(text)
                if document["version"] == 1 and {"pipeline", "sentence"} & document.keys():
                    facts[task_id.rpartition(".")[0]] = cls._of(document)
        return facts

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> Self:
        if "sentence" in document:
            path = document["path"]
            return cls(sentence=document["sentence"].replace(path, Path(path).name), path=path)
        try:
            return cls(pipeline=pipeline_from_mapping(document["pipeline"]), path=document["pipeline"]["path"])
        except (IcefloeError, KeyError, TypeError) as error:
            reason = error.sentence if isinstance(error, IcefloeError) else type(error).__name__
            return cls(sentence=f"this release cannot read the pipeline in the DAG: {reason}")


def pipeline_facts_document(pipeline: Pipeline) -> str:
    """The content of the file, with ``${ENV}`` unexpanded; a pipeline file holds no secrets."""
    return json.dumps({"version": 1, "pipeline": pipeline_to_mapping(pipeline)}, sort_keys=True)


def broken_document(path: Path, sentence: str) -> str:
    """The fault of a broken file."""
    return json.dumps({"version": 1, "path": str(path), "sentence": sentence}, sort_keys=True)


def pipeline_to_mapping(pipeline: Pipeline) -> dict[str, Any]:
    """As `pipeline_facts_document`, as a mapping."""
    return {"path": pipeline.file.path, "data": pipeline.file.data}


def pipeline_from_mapping(mapping: Mapping[str, Any]) -> Pipeline:
    """The pipeline of such a mapping; faults have no lines."""
    return Pipeline.of(YamlFile(path=mapping["path"], data=mapping["data"], lines={}), None)
