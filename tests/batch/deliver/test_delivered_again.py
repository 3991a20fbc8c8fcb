"""`icefloe deliver`: committed batches go to a sink once more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batch.deliver.delivered import Delivered
from icefloe.errors import TransientError
from support.pipelines.workspace import Outcome, icefloe
from support.sinks.document_folder import BROKEN, DocumentFolder, refuses_once


def sink_file(lab: Delivered, name: str) -> Path:
    path = lab.folder / f"{name}.yaml"
    path.write_text(json.dumps({"sink": {"type": "documents", "folder": str(lab.folder / name)}}))
    return path


def deliver(lab: Delivered, *arguments: object, name: str = "again", **keys: Any) -> Outcome:
    return icefloe("deliver", lab.pipeline(engine="local", **keys), "--sink", sink_file(lab, name), *arguments)


def values(lab: Delivered, name: str = "again") -> dict[str, object]:
    return {key: row and row["value"] for key, row in DocumentFolder(lab.folder / name).documents().items()}


def three_batches(lab: Delivered, **keys: Any) -> None:
    """Batches of a pipeline whose sink is files."""
    pipeline = lab.pipeline(engine="local", **keys)
    for change in (lambda: lab.append(1, 2, 3), lambda: lab.update(2, value=7.0), lambda: lab.delete(3)):
        change()
        assert icefloe("run", pipeline).code == 0


def test_batches_of_the_files_sink_go_to_another_sink(lab: Delivered) -> None:
    three_batches(lab)
    done = deliver(lab, "--batches", "0-2", "--json")
    assert done.code == 0
    assert [batch["batch"] for batch in done.document["batches"]] == [0, 1, 2]
    assert values(lab) == {"1": 1.0, "2": 7.0, "3": None}
    assert deliver(lab, "--batches", "0-2").code == 0
    assert values(lab) == {"1": 1.0, "2": 7.0, "3": None}


def test_a_batch_goes_in_the_columns_in_which_it_was_delivered_whatever_the_pipeline_selects_now(
    lab: Delivered,
) -> None:
    keys: dict[str, Any] = {"changelog": {"path": f"file://{lab.folder}/log"}, "columns": ["value"]}
    lab.append(1)
    assert lab.deliver(**keys).code == 0
    before = lab.documents()
    for document in lab.target.glob("doc-*"):
        document.unlink()
    sink = {"type": "documents", "folder": str(lab.target)}
    edited = lab.pipeline(sink=sink, engine="local", **{**keys, "columns": ["word"]})
    assert icefloe("deliver", edited, "--batches", "0").code == 0
    assert lab.documents() == before == {"1": {"value": 1.0}}


def test_a_batch_that_fails_says_where_to_go_on(lab: Delivered) -> None:
    three_batches(lab)
    calls = iter([None, TransientError("no answer")])

    def fail_at_the_second() -> None:
        error = next(calls, None)
        if error is not None:
            raise error

    BROKEN["begin"] = fail_at_the_second
    failed = deliver(lab, "--batches", "0-2")
    assert (failed.code, failed.err) == (75, "icefloe: batch 1: no answer; go on with --batches 1-2\n")
    assert deliver(lab, "--batches", "1-2").code == 0
    assert values(lab) == {"1": 1.0, "2": 7.0, "3": None}


def test_a_backfill_goes_where_it_is_wanted(lab: Delivered) -> None:
    first = lab.append(1)
    lab.append(2)
    assert lab.deliver("--up-to-snapshot-id", str(first)).code == 0
    [backfill_id] = [path.name for path in lab.storage().glob("checkpoints/events/backfills/*")]
    sink = {"type": "documents", "folder": str(lab.target)}
    pipeline = lab.pipeline(sink=sink, engine="local")
    assert icefloe("deliver", pipeline, "--backfill", backfill_id, "--sink", sink_file(lab, "again")).code == 0
    assert values(lab) == {"1": 1.0}


def backfill(lab: Delivered) -> Callable[..., Outcome]:
    """A command for the backfill that there is; the pipeline delivers to a folder of documents."""
    [backfill_id] = [path.name for path in lab.storage().glob("checkpoints/events/backfills/*")]
    pipeline = lab.pipeline(sink={"type": "documents", "folder": str(lab.target)}, engine="local")

    def command(name: str, *arguments: object) -> Outcome:
        return icefloe(name, pipeline, "--backfill", backfill_id, *arguments)

    return command


def test_a_backfill_is_one_batch_so_no_numbers_are_taken_with_it(lab: Delivered) -> None:
    assert lab.deliver("--up-to-snapshot-id", str(lab.append(1))).code == 0
    command = backfill(lab)
    refused = command("deliver", "--batches", "0", "--sink", sink_file(lab, "again"))
    assert (refused.code, "--batches names batches of the pipeline itself" in refused.err) == (2, True)
    refuses_once("begin")
    failed = command("deliver", "--sink", sink_file(lab, "again"))
    assert (failed.code, "--batches" in failed.err) == (75, False)
    assert command("deliver", "--sink", sink_file(lab, "again")).code == 0
    assert values(lab) == {"1": 1.0}


def test_batches_without_changes_are_passed_over(lab: Delivered) -> None:
    pipeline = lab.pipeline(engine="local")
    lab.append(1)
    assert icefloe("run", pipeline).code == 0
    assert icefloe("reset", pipeline, "--yes").code == 0
    done = deliver(lab, "--batches", "1")
    assert (done.code, done.out.strip()) == (0, "none of these batches changed anything")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--batches", "0-5"], 65, "batch 3 of events is not committed"),
        (["--batches", "2-1"], 2, "ends before it begins: write 1-2"),
        (["--batches", "all"], 2, "is not a range of batches"),
        ([], 2, "which batches? give --batches A-B"),
    ],
)
def test_wrong_batches_are_refused_before_anything_is_delivered(
    lab: Delivered, arguments: list[str], code: int, sentence: str
) -> None:
    three_batches(lab)
    refused = deliver(lab, *arguments)
    assert refused.code == code
    assert sentence in refused.err
    assert not (lab.folder / "again").exists()


def test_batches_that_are_no_longer_staged_are_named_with_the_way_out(lab: Delivered) -> None:
    sink = {"type": "documents", "folder": str(lab.target)}
    for number in range(2):
        lab.append(number)
        assert lab.deliver().code == 0
    refused = deliver(lab, "--batches", "0-1", sink=sink)
    assert refused.code == 65
    assert "batch 0 of events is committed, but its files are no longer in" in refused.err
    assert "changelog.keep" in refused.err


def test_a_sink_file_without_a_sink_and_a_sink_of_files_are_refused(lab: Delivered) -> None:
    three_batches(lab)
    pipeline = lab.pipeline(engine="local")
    own = icefloe("deliver", pipeline, "--batches", "0")
    assert (own.code, "copy the files" in own.err) == (2, True)
    empty = lab.folder / "empty.yaml"
    empty.write_text("sinks: {}\n")
    refused = icefloe("deliver", pipeline, "--batches", "0", "--sink", empty)
    assert refused.code == 65
    assert "sink must be a mapping" in refused.err
