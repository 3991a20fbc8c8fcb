from dataclasses import replace

import pytest

from icefloe.documents import dump_document
from icefloe.errors import TerminalError
from icefloe.shuffle.index_file import OrdinalSums
from icefloe.shuffle.map_output_log import CorruptMapOutputError, MapOutputRecord, StoredFile

RECORD = MapOutputRecord(
    map_id=3,
    generation=1,
    attempt="attempt-a",
    data=StoredFile(key="3.1.attempt-a.data", size_bytes=10, crc32=1),
    ordinals=(OrdinalSums(change_ordinal=0, rows=2, signed_count=0, hash_sum=1 << 127),),
    seconds=0.1,
).sealed()


def test_a_record_comes_back():
    assert MapOutputRecord.from_json(dump_document(RECORD), map_id=3, generation=1) == RECORD


def test_an_insert_only_task_has_a_part_and_no_files():
    record = replace(RECORD, data=None, ordinals=(), part={"number": 3, "details": {"files": ["a"]}, "x": 1.5}).sealed()
    assert MapOutputRecord.from_json(dump_document(record), map_id=3, generation=1) == record


def test_every_damaged_byte_is_distinguished_from_another_release():
    data = dump_document(RECORD)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x01
        try:
            found = MapOutputRecord.from_json(bytes(damaged), map_id=3, generation=1)
        except CorruptMapOutputError:
            continue
        assert found == RECORD, "damage between the values changes nothing"


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"crc32": "x"}'])
def test_bytes_that_are_no_record_are_damage(data):
    with pytest.raises(CorruptMapOutputError):
        MapOutputRecord.from_json(data, map_id=3, generation=1)


def test_the_record_of_another_task_is_damage():
    with pytest.raises(CorruptMapOutputError, match=r"is for 3\.1"):
        MapOutputRecord.from_json(dump_document(RECORD), map_id=4, generation=1)


def test_a_whole_record_of_another_release_stops():
    newer = replace(RECORD, version=7).sealed()  # type: ignore[arg-type]  # that is the test
    with pytest.raises(TerminalError, match="another release") as caught:
        MapOutputRecord.from_json(dump_document(newer), map_id=3, generation=1)
    assert not isinstance(caught.value, CorruptMapOutputError)
