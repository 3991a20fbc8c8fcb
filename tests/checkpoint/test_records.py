import json
from dataclasses import replace

import pytest

from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.records import (
    CommitRecord,
    NewerRecordError,
    OffsetRecord,
    PipelineRecord,
    load_record,
)
from icefloe.documents import TornDocumentError, dump_document
from icefloe.errors import TerminalError
from support.sample_records import BIG, a_commit, a_step, an_offset, the_pipeline

URL = "s3://lake/checkpoints/flights/offsets/3.json"
RECORDS = [
    the_pipeline(),
    the_pipeline(table_uuid=None),
    an_offset(3),
    an_offset(0, up_to_snapshot_id=None),
    a_commit(3),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was_written(record):
    assert load_record(type(record), dump_document(record), url=URL) == record


def test_a_record_is_json_with_a_version_and_snapshot_ids_as_strings():
    document = json.loads(dump_document(an_offset(3)))
    assert document["version"] == 2
    spec = document["spec"]
    assert (spec["after_snapshot_id"], spec["up_to_snapshot_id"]) == (str(BIG + 2), str(BIG + 3))
    assert spec["steps"][0]["snapshot_ids"] == [str(BIG - 1), str(BIG)]
    assert document["follows"] == {"batch_number": 2, "snapshot_id": str(BIG + 2), "load_part": None}
    assert spec["identity"] == {"policy": "none", "columns": [], "field_ids": []}


@pytest.mark.parametrize("kind", [PipelineRecord, OffsetRecord, CommitRecord])
@pytest.mark.parametrize("data", [b'{"version": 4}', b'{"version": 7, "name": "x", "unheard_of": []}'])
def test_a_record_of_a_newer_release_stops_with_a_sentence_that_says_so(kind, data):
    with pytest.raises(
        NewerRecordError, match=rf"{URL} has version \d, .* knows only 1 to [23]: .*run that release"
    ) as caught:
        load_record(kind, data, url=URL)
    assert (caught.value.url, caught.value.version) == (URL, json.loads(data)["version"])


def document(**changes):
    """An offset with keys changed, those of the spec in the spec."""
    whole = json.loads(dump_document(an_offset(3)))
    spec = {**whole["spec"], **{key: changes.pop(key) for key in list(changes) if key in whole["spec"]}}
    return json.dumps({**whole, "spec": spec, **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        dump_document(a_commit(3)),
        document(version=0),
        document(version="1x"),
        document(unheard_of=1),
        document(disposition="abandoned"),
        document(batch_number=-1),
        document(batch_number=5),
        document(follows=None),
        document(spec=None),
        document(up_to_snapshot_id="not a number"),
        document(steps=[{"kind": "commit"}]),
        document(identity={"policy": "none", "columns": ["a"]}),
        document(identity={"policy": "guess", "columns": ["a"]}),
    ],
)
def test_a_damaged_record_is_one_sentence_that_names_its_url(data):
    with pytest.raises(TerminalError, match=rf"the checkpoint record {URL} cannot be read as OffsetRecord") as caught:
        load_record(OffsetRecord, data, url=URL)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, NewerRecordError)


@pytest.mark.parametrize("data", [b"", b'{"version": 1', dump_document(an_offset(3))[:-40]])
def test_an_empty_or_cut_record_is_one_sentence_that_names_its_url(data):
    with pytest.raises(
        TornDocumentError, match=rf"the checkpoint record {URL} (is empty|ends in the middle)"
    ) as caught:
        load_record(OffsetRecord, data, url=URL)
    assert "\n" not in str(caught.value)


def test_a_record_with_steps_that_are_not_numbered_is_refused():
    with pytest.raises(ValueError, match="without gaps"):
        an_offset(0, steps=(a_step(0), a_step(2)))


def test_batches_are_numbered_from_0():
    for record in (an_offset(), a_commit()):
        with pytest.raises(ValueError, match="numbered from 0, found -1"):
            replace(record, batch_number=-1)


@pytest.mark.parametrize(("policy", "columns"), [("none", ("a",)), ("table", ()), ("pipeline", ())])
def test_an_identity_has_columns_exactly_when_it_has_a_policy(policy, columns):
    with pytest.raises(ValueError, match=f"policy {policy}"):
        Identity(policy=policy, columns=columns)
