import json
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.documents import Document, Hash128, SnapshotId, dump_document, load_document
from icefloe.errors import TerminalError


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Document):
    snapshot_id: SnapshotId | None
    row_hash: Hash128 = 0
    payload: bytes = b""
    tags: tuple[str, ...] = ()
    version: Literal[1] = 1


def load(text):
    return load_document(Note, text.encode(), what="note.json in memory://n")


def test_a_document_is_written_for_people_and_ends_with_a_newline():
    assert dump_document(Note(snapshot_id=7)).splitlines()[0] == b"{"
    assert dump_document(Note(snapshot_id=7)).endswith(b"\n}\n")


def test_snapshot_ids_and_hashes_are_strings_in_json():
    written = json.loads(dump_document(Note(snapshot_id=2**62 + 1, row_hash=255)))
    assert written["snapshot_id"] == "4611686018427387905"
    assert written["row_hash"] == "0" * 30 + "ff"


@given(
    st.none() | st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.integers(min_value=0, max_value=2**128 - 1),
    st.binary(),
)
def test_a_document_reads_back_as_it_was_written(snapshot_id, row_hash, payload):
    note = Note(snapshot_id=snapshot_id, row_hash=row_hash, payload=payload, tags=("a", "b"))
    assert load_document(Note, dump_document(note), what="note") == note


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x", "Invalid JSON"),
        ("[]", "at the top level"),
        ("{}", "Field required at snapshot_id"),
        ('{"snapshot_id": null, "colour": 1}', "at colour"),
        ('{"snapshot_id": "x"}', "at snapshot_id"),
        ('{"snapshot_id": null, "version": 2}', "at version"),
        ('{"snapshot_id": null, "tags": [1]}', "at tags.0"),
        ('{"snapshot_id": null, "row_hash": "no hex"}', "at row_hash"),
        ('{"snapshot_id": null, "row_hash": "-1"}', "at row_hash"),
        (f'{{"snapshot_id": null, "row_hash": "1{"0" * 32}"}}', "at row_hash"),
    ],
)
def test_a_damaged_or_foreign_document_is_refused_with_its_place(text, complaint):
    with pytest.raises(TerminalError) as caught:
        load(text)
    assert caught.value.sentence.startswith("note.json in memory://n cannot be read as Note by this release")
    assert complaint in caught.value.sentence


WHOLE = dump_document(Note(snapshot_id=7, tags=("a",)))


@pytest.mark.parametrize("length", range(len(WHOLE) - 1))
def test_a_document_cut_anywhere_names_the_section_with_the_way_out(length):
    with pytest.raises(TerminalError, match=r"^note.json cannot be read .* section on empty or cut documents in docs/"):
        load_document(Note, WHOLE[:length], what="note.json")
    assert load_document(Note, WHOLE[:-1], what="note.json").tags == ("a",)


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_a_document_shows_no_character_that_nobody_sees_and_holds_each(tag: str) -> None:
    note = Note(snapshot_id=7, tags=(tag, "a\x7f\x85\u202e\u2028\U000e0041é"))
    written = dump_document(note).decode()
    assert written.replace("\n", "").isprintable()
    assert "é" in written
    assert load(written) == note
