"""Records as the release before format 2 wrote them: golden/format-1 was written by it and is never changed."""

import json
from pathlib import Path

import pytest

from icefloe.batch.plan_document import Plan, upgraded_plan
from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.records import (
    CommitRecord,
    OffsetRecord,
    OwnerRecord,
    PipelineRecord,
    Writer,
    load_record,
)
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from support.sample_records import a_commit, an_offset, the_pipeline

GOLDEN = Path(__file__).parent / "golden"
CHECKPOINT = GOLDEN / "format-1" / "checkpoints" / "events"


def test_an_offset_of_format_1_is_read_with_its_range_identity_and_sizes() -> None:
    record = load_record(OffsetRecord, (CHECKPOINT / "offsets/1.json").read_bytes(), url="offsets/1.json")
    assert (record.version, record.batch_number, record.checkpoint_id, record.follows) == (1, 1, None, None)
    assert (record.after_snapshot_id, record.up_to_snapshot_id) == (
        record.steps[0].start_snapshot_id,
        record.steps[1].end_snapshot_id,
    )
    assert record.spec.identity == Identity(policy="pipeline", columns=("id",))
    assert dict(record.spec.sizes) == {
        "shuffle.partitions": "auto", "shuffle.target_size_bytes": 64 * 2**20, "shuffle.map_task_bytes": 256 * 2**20,
        "sink.target_file_bytes": 128 * 2**20,
    }  # fmt: skip
    assert (record.spec.changes, record.spec.columns, record.spec.filter, record.spec.cores) == (
        "each",
        None,
        None,
        None,
    )
    assert record.plan_digest is None


def test_the_other_records_of_format_1_are_read() -> None:
    pipeline = load_record(PipelineRecord, (CHECKPOINT / "pipeline.json").read_bytes(), url="pipeline.json")
    assert (pipeline.version, pipeline.name, pipeline.checkpoint_id) == (1, "events", None)
    commit = load_record(CommitRecord, (CHECKPOINT / "commits/0.json").read_bytes(), url="commits/0.json")
    assert (commit.version, commit.counts["insert"], commit.committed_by) == (1, 10, None)


def test_a_plan_of_format_1_is_read() -> None:
    data = (GOLDEN / "format-1/shuffle/events/1/plan.json").read_bytes()
    plan = load_document(Plan, upgraded_plan(data), what="plan.json")
    assert (plan.version, plan.batch_number, plan.map_task_digests, plan.checkpoint_id) == (1, 1, (), None)


@pytest.mark.parametrize(
    "changes",
    [{"unheard_of": 1}, {"steps": 1}, {"up_to_snapshot_id": "x"}, {"batch_number": -1}, {"result_configuration": 1}],
)
def test_a_damaged_offset_of_format_1_is_refused(changes: dict[str, object]) -> None:
    document = {**json.loads((CHECKPOINT / "offsets/1.json").read_text()), **changes}
    with pytest.raises(TerminalError, match=r"offsets/1\.json cannot be read as OffsetRecord"):
        load_record(OffsetRecord, json.dumps(document).encode(), url="offsets/1.json")


def test_records_of_format_2_have_the_bytes_of_the_golden_files() -> None:
    records = {
        "pipeline": the_pipeline(checkpoint_id="5e0c4f0a"),
        "offset": an_offset(3, opened_by=Writer(owner="us", run="flights manual__2026-11-21"), plan_digest="00ff"),
        "commit": a_commit(3, checkpoint_id="5e0c4f0a", committed_by=Writer(owner="us")),
        "owner": OwnerRecord(
            number=0, checkpoint_id="5e0c4f0a", writer=Writer(), since="2026-11-21T07:00:00.000+00:00"
        ),
    }
    for name, record in records.items():
        assert dump_document(record) == (GOLDEN / "format-2" / f"{name}.json").read_bytes(), name
        assert load_record(type(record), dump_document(record), url=name) == record
