import json
from pathlib import Path

import pytest

from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.record_store import RecordStore
from icefloe.checkpoint.records import BatchOutcome, Cursor, OffsetRecord, OwnerRecord, Writer
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.iceberg.step import RecordedSnapshot
from shuffle.memory_store import MemoryStore
from support.sample_records import BIG, a_commit, a_step, an_offset, the_pipeline

KEY = "offsets/3.json"
GOLDEN = Path(__file__).parent / "golden"
SNAPSHOT = RecordedSnapshot(
    snapshot_id=BIG + 3, parent_snapshot_id=BIG + 2, sequence_number=4, timestamp_ms=1_700_000_000_000,
    manifest_list="s3://lake/flights/snap.avro", schema_id=0,
)  # fmt: skip
WRITTEN = {
    "pipeline": the_pipeline(),
    "owner": OwnerRecord(
        number=1, checkpoint_id="5e0c4f0a", writer=Writer(owner="team-a", run="r1"), since="2026-11-21T07:00:00.000Z"
    ),
    "offset": an_offset(3, snapshot=SNAPSHOT),
    "move": an_offset(
        3,
        outcome=BatchOutcome.RESET,
        pipeline=the_pipeline(),
        follows=Cursor(batch_number=2, snapshot_id=None, is_beginning=True, pipeline_since=1),
        after_snapshot_id=None,
        up_to_snapshot_id=None,
        steps=(),
    ),
    "commit": a_commit(3, snapshot=SNAPSHOT, pipeline_since=1),
}


def load(data):
    """The offset that a checkpoint finds in a document."""
    store = MemoryStore()
    store.put(KEY, data)
    return RecordStore(store).load(OffsetRecord, KEY, number=3)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_is_written_and_read_as_format_1_has_it(name):
    record, golden = WRITTEN[name], (GOLDEN / f"{name}.json").read_bytes()
    assert dump_document(record) == golden
    assert load_document(type(record), golden, what="the record") == record


def document(**changes):
    """An offset with keys changed, those of the spec in the spec."""
    whole = json.loads(dump_document(an_offset(3)))
    spec = {**whole["spec"], **{key: changes.pop(key) for key in list(changes) if key in whole["spec"]}}
    return json.dumps({**whole, "spec": spec, **changes}).encode()


def ending(**changes):
    whole = json.loads(dump_document(an_offset(3)))["ending"]
    return {**whole, "cursor": {**whole["cursor"], **changes}}


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"",
        b'{"version": 1',
        b"[]",
        b"{}",
        b"\xff\xfe",
        dump_document(a_commit(3)),
        document(version=0),
        document(version=2),
        document(version="1x"),
        document(unheard_of=1),
        document(disposition="abandoned"),
        document(ending=ending(batch_number=-1)),
        document(ending=ending(batch_number=5)),
        document(ending=ending(snapshot_id="7")),
        document(follows=None),
        document(spec=None),
        document(up_to_snapshot_id="not a number"),
        document(steps=[{"kind": "commit"}]),
        document(identity={"policy": "none", "columns": ["a"]}),
        document(identity={"policy": "guess", "columns": ["a"]}),
    ],
)
def test_a_damaged_record_is_one_sentence_that_names_its_url(data):
    with pytest.raises(
        TerminalError, match=rf"the checkpoint record memory://tests/{KEY} cannot be read as OffsetRecord"
    ) as caught:
        load(data)
    assert "\n" not in str(caught.value)


def test_a_record_with_steps_that_are_not_numbered_is_refused():
    with pytest.raises(ValueError, match="without gaps"):
        an_offset(0, steps=(a_step(0), a_step(2)))


@pytest.mark.parametrize(("policy", "columns"), [("none", ("a",)), ("table", ()), ("pipeline", ())])
def test_an_identity_has_columns_exactly_when_it_has_a_policy(policy, columns):
    with pytest.raises(ValueError, match=f"policy {policy}"):
        Identity(policy=policy, columns=columns)
