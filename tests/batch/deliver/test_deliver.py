"""Batches are staged, proven and then delivered, here to a folder of documents and by the command line."""

import pickle
import re
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark import cloudpickle

from batch.deliver.delivered import Delivered
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import Credentials
from icefloe.engines.local import LocalEngine
from icefloe.engines.run_batch import run_batch
from icefloe.errors import TransientError
from icefloe.pipeline.model import Pipeline
from support.catalogs import sql_properties
from support.pipelines.workspace import icefloe
from support.sinks.document_folder import BROKEN, refuses_once


def test_batches_arrive_one_after_another(lab: Delivered) -> None:
    lab.append(1, 2, 3)
    first = lab.deliver()
    assert (first.code, first.err) == (0, "")
    assert {key: row and row["value"] for key, row in lab.documents().items()} == {"1": 1.0, "2": 1.0, "3": 1.0}
    lab.update(2, value=7.0)
    lab.delete(3)
    assert lab.deliver().code == 0
    assert {key: row and row["value"] for key, row in lab.documents().items()} == {"1": 1.0, "2": 7.0, "3": None}
    delivery = lab.report(1)["delivery"]
    assert (delivery["sink"], delivery["url"], delivery["documents"]) == ("documents", lab.target.as_uri(), 3)
    assert delivery["lag_seconds"] >= 0
    assert [phase["phase"] for phase in lab.report(1)["phases"]][-2:] == ["deliver", "commit"]


def test_the_command_line_says_what_the_sink_took(lab: Delivered) -> None:
    lab.append(1, 2, 3)
    assert lab.deliver().code == 0
    file = lab.folder / "events.yaml"
    shown = icefloe("show", file)
    lines = dict(
        re.split(r" {2,}", line.strip(), maxsplit=1) for line in shown.out.splitlines() if "  " in line.strip()
    )
    assert (lines["delivery sink"], lines["delivery url"]) == ("documents", lab.target.as_uri())
    assert (lines["delivery documents"], lines["delivery repeated"], lines["delivery dead letters"]) == ("3", "0", "0")
    assert lines["delivery visible at"] == lab.report(0)["delivery"]["visible_at"]
    header, row = icefloe("batches", file).out.splitlines()
    assert header.endswith("documents  dead letters  lag seconds")
    assert row.split()[-4:-2] == ["3", "0"]
    [batch] = icefloe("batches", file, "--json").document["batches"]
    assert batch["delivery"] == lab.report(0)["delivery"]


def test_a_staged_batch_stays_until_the_next_one_is_delivered(lab: Delivered) -> None:
    for number in range(3):
        lab.append(number)
        assert lab.deliver().code == 0
        assert lab.staged() == {f"batch={number}"}


def test_parts_that_were_delivered_are_not_delivered_again(lab: Delivered) -> None:
    lab.append(1, 2)
    refuses_once("finish")
    assert lab.deliver().code == 75
    BROKEN["deliver"] = lambda: pytest.fail("the part was delivered before")
    assert lab.deliver().code == 0
    assert lab.report(0)["delivery"]["parts"] == 1


def test_a_sink_is_not_asked_again_for_a_batch_that_is_recorded_as_visible(
    lab: Delivered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: Any) -> Any:
        raise TransientError("the run died before it committed")

    lab.append(1, 2)
    with monkeypatch.context() as patches:
        patches.setattr("icefloe.engines.phase_runner.commit_batch", lose)
        assert lab.deliver().code == 75
    BROKEN["begin"] = lambda: pytest.fail("the batch is visible")
    assert lab.deliver().code == 0
    assert lab.report(0)["delivery"]["parts"] == 1


def test_nothing_is_delivered_before_the_whole_batch_is_proven(lab: Delivered, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.append(1, 2)
    assert lab.deliver().code == 0
    lab.update(1, value=2.0)
    BROKEN["begin"] = lambda: pytest.fail("the batch is not proven")
    # The changes at hand no longer add up to the rows that were read.
    monkeypatch.setattr("icefloe.batch.deliver.prove._signed_count", lambda counts: sum(counts.values()))
    refused = lab.deliver()
    assert refused.code == 65
    assert "does not add up at the sink" in refused.err


def test_a_destination_that_is_anothers_is_refused_before_anything_is_written(lab: Delivered) -> None:
    lab.append(1)
    lab.target.mkdir()
    (lab.target / "owner.json").write_text('"somebody"')
    refused = lab.deliver()
    assert (refused.code, refused.sentence) == (65, f"{lab.target.as_uri()} is another's")
    assert [path for path in lab.storage().rglob("*") if path.is_file()] == []


def test_changelog_with_the_files_sink_is_refused(lab: Delivered) -> None:
    refused = icefloe("run", lab.pipeline(changelog={"keep": "7d"}))
    assert refused.code == 65
    assert "changelog is for other sinks" in refused.err


def test_a_sink_may_be_reached_otherwise_while_a_batch_is_open_but_not_be_another(lab: Delivered) -> None:
    lab.append(1)
    sink = {"type": "documents", "folder": str(lab.target), "url": "https://one"}
    refuses_once("begin")
    assert icefloe("run", lab.pipeline(sink=sink, engine="local")).code == 75
    other = icefloe("run", lab.pipeline(sink={**sink, "folder": "/other"}, engine="local"))
    assert other.code == 65
    assert f'sink.folder was "{lab.target}" and is "/other"' in other.err
    assert icefloe("run", lab.pipeline(sink={**sink, "url": "https://two", "bulk_bytes": 5}, engine="local")).code == 0
    assert list(lab.documents()) == ["1"]


def test_batches_that_an_earlier_checkpoint_staged_are_refused_with_the_way_out(lab: Delivered) -> None:
    lab.append(1)
    assert lab.deliver().code == 0
    shutil.rmtree(lab.storage() / "checkpoints")
    shutil.rmtree(lab.target)
    refused = lab.deliver()
    assert refused.code == 65
    assert "staged/events belongs to pipeline events" in refused.err
    assert "or a changelog.path if batches are staged there" in refused.err
    assert lab.deliver(changelog={"path": f"file://{lab.folder}/log"}).code == 0
    assert list(lab.documents()) == ["1"]


def test_no_task_of_a_batch_is_given_what_opens_the_catalog(lab: Delivered, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    run = LocalEngine.map

    def travelled(engine: LocalEngine, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        # As Spark sends its tasks to executors.
        sent.append(cloudpickle.dumps(function))
        return run(engine, pickle.loads(sent[-1]), numbers)

    monkeypatch.setattr(LocalEngine, "map", travelled)
    lab.append(1, 2, 3)
    catalog = Credentials(catalog_properties={**sql_properties(lab.folder), "token": "planted"})
    file = lab.pipeline(sink={"type": "documents", "folder": str(lab.target)}, catalog="lab")
    for _ in range(2):
        run_batch(PipelineSession.open(Pipeline.load(file), credentials=catalog, environ={}), None, environ={})
        lab.update(2, value=7.0)
    assert len(sent) == 5
    assert [b"planted" in each for each in sent] == [False] * 5
