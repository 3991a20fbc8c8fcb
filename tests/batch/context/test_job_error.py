from pathlib import Path

import pytest

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.task_attempt import JobError
from icefloe.batch.credentials import Credentials
from icefloe.batch.deliver.prove import UnfinishedTasksError
from icefloe.batch.open.recorded_pipeline import ConfigurationChangedError
from icefloe.batch.run_settings import RunSettings
from icefloe.errors import IcefloeError, TerminalError, TransientError, UsageError
from icefloe.flow import Phase
from icefloe.pipeline.yaml_file import PipelineFileError, Problem
from icefloe.shuffle.map_output_log import CorruptMapOutputError, MissingMapOutputError

REFERENCE = BatchReference(
    plan_url="memory://job-errors/7/plan.json",
    credentials=Credentials(),
    settings=RunSettings(checkpoint_url="memory://job-errors/checkpoint"),
)


@pytest.mark.parametrize(
    ("kind", "family"), [(TerminalError, "terminal"), (UsageError, "terminal"), (TransientError, "transient")]
)
def test_an_error_is_read_back_as_one_of_its_family(kind: type[IcefloeError], family: str) -> None:
    JobError.save(REFERENCE, "shuffle_read", family, kind("it broke", snapshot_id=5))
    document = JobError.load(REFERENCE, "shuffle_read", family)
    assert document is not None
    assert document.family == family
    assert document.facts == {"snapshot_id": 5}
    error = document.as_error()
    assert type(error) is kind
    assert (str(error), error.snapshot_id) == ("it broke", 5)


@pytest.mark.parametrize(
    "error",
    [
        CorruptMapOutputError.of(7, 2, "its index file is gone"),
        MissingMapOutputError("2 of 9 map tasks have no valid output", map_ids=(3, 4)),
        UnfinishedTasksError("1 range has not delivered", phase=Phase.SHUFFLE_READ),
        PipelineFileError.of("a.yaml", [Problem(line=3, key="changes", sentence="changes must be each or net")]),
        ConfigurationChangedError("the pipeline was edited", differences=(("changes", "each", None),)),
        TransientError("no worker ran the task", url="s3://lake"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_class_and_facts_come_back_as_they_were_raised(error: IcefloeError) -> None:
    JobError.save(REFERENCE, "shuffle_write", type(error).__name__, error)
    document = JobError.load(REFERENCE, "shuffle_write", type(error).__name__)
    assert document is not None
    back = document.as_error()
    assert (type(back), back.sentence, back.facts) == (type(error), error.sentence, error.facts)


def test_a_fact_of_another_type_is_left_out_and_the_sentence_stays() -> None:
    document = JobError.save(REFERENCE, "insert_only", "odd", TerminalError("it broke", path=Path("a"), line=4))  # type: ignore[arg-type]
    assert (document.sentence, document.facts) == ("it broke", {"line": 4})


@pytest.mark.parametrize(
    "kind", [None, "icefloe.errors.GoneError", "icefloe.gone.Error", "icefloe.errors.one_line", "builtins.OSError"]
)
def test_an_error_of_a_class_that_this_release_does_not_know_is_one_of_its_family(kind: str | None) -> None:
    document = JobError(family="transient", kind=kind, sentence="it broke", facts={"key": "a", "colour": "red"})
    error = document.as_error()
    assert (type(error), error.sentence, error.facts) == (TransientError, "it broke", {"key": "a"})


def test_an_attempt_that_died_without_a_word_left_none() -> None:
    assert JobError.load(REFERENCE, "shuffle_write", "another") is None
