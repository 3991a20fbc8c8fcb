"""Settings that decide what arrives: no task of a batch goes on with other ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batch.deliver.delivered import Delivered
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.run_settings import Credentials, RunSettings
from icefloe.checkpoint.records import Writer
from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import ShuffleSettings
from support.pipelines.pipeline_files import write_pipeline
from support.sinks.document_folder import registered


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Delivered]:
    with registered():
        made = Delivered.create(tmp_path)
        made.append(1, 2)
        yield made


def opened(lab: Delivered, **keys: Any) -> BatchReference:
    """A batch that is planned, to be delivered to a folder of documents."""
    lab.pipeline(sink={"type": "documents", "folder": str(lab.target)}, **keys)
    session = PipelineSession.open(
        Pipeline.load(lab.folder / "events.yaml"), credentials=Credentials(), environ={}
    )  # fmt: skip
    reference = open_and_plan(session).reference
    assert reference is not None
    return reference


def with_edited(reference: BatchReference, **keys: Any) -> BatchReference:
    """The reference of a later task, which finds other keys in the pipeline file."""
    settings = reference.settings
    return replace(reference, settings=replace(settings, pipeline=replace(settings.pipeline, **keys)))


@pytest.mark.parametrize(
    "edited", [{"changes": "upsert"}, {"columns": ("id",)}, {"columns": None}, {"filter": "id > 1"}]
)
def test_no_task_goes_on_after_an_edit_of_what_a_sink_is_given(lab: Delivered, edited: dict[str, Any]) -> None:
    reference = opened(lab, changes="net", columns=["id", "value"])
    reference.open()
    with pytest.raises(TerminalError, match=r"columns or changelog\.path, have changed since"):
        with_edited(reference, **edited).open()


def test_values_that_help_a_batch_through_may_be_edited(lab: Delivered) -> None:
    with_edited(opened(lab), shuffle=ShuffleSettings(memory_bytes=1 << 26), on_removed_rows="skip").open()


def test_a_driver_gets_the_file_and_the_variables_that_it_names_and_no_others(tmp_path: Path) -> None:
    path = write_pipeline(tmp_path, filter="name = '${NAME}'", max_scan_bytes="${MOST}", columns=["name"])
    environ = {"NAME": "Ada", "MOST": "64MiB", "HOME": "/root"}
    pipeline = Pipeline.load(path, environ=environ)
    given = RunSettings(pipeline=pipeline, backfill_id="start-7", writer=Writer(run="manual"))
    handed = given.to_environment()
    assert "/root" not in "".join(handed.values())
    found = RunSettings.from_environment(handed)
    assert (found, found.digest) == (given, given.digest)
    assert (found.pipeline.filter, found.pipeline.max_scan_bytes) == ("name = 'Ada'", 1 << 26)
