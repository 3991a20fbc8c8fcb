import json
from dataclasses import replace

import pytest

from icefloe.documents import dump_document
from icefloe.errors import TerminalError, TransientError
from icefloe.shuffle.committed_output import (
    CorruptMapOutputError,
    MapOutputLog,
    MapOutputRecord,
    MissingMapOutputError,
    StoredFile,
)
from icefloe.shuffle.index_file import OrdinalSums
from shuffle.memory_store import MemoryStore


def record(attempt="a", *, map_id=0, generation=0):
    return MapOutputRecord(map_id=map_id, generation=generation, attempt=attempt)


@pytest.fixture
def log(store):
    return MapOutputLog(store)


def test_the_first_attempt_wins_and_a_later_one_adopts_it(log):
    first = log.commit(record("a"))
    assert first.attempt == "a"
    assert log.commit(record("b")) == first
    assert log.current(0).record == first


def test_a_void_generation_lets_the_next_commit(log):
    log.commit(record("a"))
    log.void(0, 0, "its data file is gone")
    log.void(0, 0, "said twice")
    assert log.current(0) == (1, None, None)
    second = log.commit(record("b", generation=1))
    assert (second.generation, second.attempt) == (1, "b")
    assert log.current(0) == (1, second, None)


def test_a_zombie_of_a_void_generation_commits_the_open_one(log):
    log.commit(record("a"))
    log.void(0, 0, "damaged")
    assert log.commit(record("zombie")).generation == 1


def test_a_record_that_is_created_under_a_void_does_not_count(log, store):
    log.commit(record("a"))
    log.void(0, 0, "damaged")
    store.delete(["0.0"])
    assert log.commit(record("zombie")).generation == 1
    assert log.current(0).record.attempt == "zombie"


def test_a_damaged_record_counts_as_none_and_is_voided_by_the_next_commit(log, store):
    log.commit(record("a"))
    store.flip("0.0", 30)
    assert log.current(0).record is None
    assert log.current(0).damage is not None
    assert log.commit(record("b")).generation == 1
    assert json.loads(store.objects["0.0.void"])["reason"] == "its commit record is not JSON"


def test_a_create_whose_answer_was_lost_is_found_to_have_won(store):
    class LostAnswer(MemoryStore):
        def create(self, key, data):
            super().create(key, data)
            return False

    log = MapOutputLog(LostAnswer())
    assert log.commit(record("a")).attempt == "a"


def test_a_store_that_neither_creates_nor_shows_a_record_is_given_up():
    class Broken(MemoryStore):
        def create(self, *_):
            return False

    with pytest.raises(TransientError, match="neither"):
        MapOutputLog(Broken()).commit(record())


def test_missing_records_are_named_and_never_empty(log):
    log.commit(record("a", map_id=1))
    with pytest.raises(MissingMapOutputError, match="2 of 3") as caught:
        log.records(range(3))
    assert caught.value.map_ids == (0, 2)


RECORD = MapOutputRecord(
    map_id=3,
    generation=1,
    attempt="attempt-a",
    data=StoredFile(key="3.1.attempt-a.data", size_bytes=10, crc32=1),
    ordinals=(OrdinalSums(change_ordinal=0, rows=2, signed_count=0, hash_sum=1 << 127),),
    seconds=0.1,
).sealed()


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
