import json
import threading

import pytest

from icefloe.errors import TransientError
from icefloe.shuffle.map_output_log import MapOutputLog, MapOutputRecord, MissingMapOutputError
from shuffle.memory_store import MemoryStore


def record(attempt="a", *, map_id=0, generation=0):
    return MapOutputRecord(map_id=map_id, generation=generation, attempt=attempt)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def log(store):
    return MapOutputLog(store)


def test_nothing_is_committed_at_first(log):
    assert log.current(7) == (0, None, None)


def test_the_first_attempt_wins_and_a_later_one_adopts_it(log):
    first = log.commit(record("a"))
    assert first.attempt == "a"
    assert log.commit(record("b")) == first
    assert log.current(0).record == first


def test_many_attempts_at_once_agree_on_one(log):
    found = []
    threads = [threading.Thread(target=lambda i=i: found.append(log.commit(record(f"a{i}")))) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.attempt for each in found}) == 1


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


def test_a_void_is_announced_before_it_is_created(log, store):
    log.commit(record("a"))
    store.requests.clear()
    log.void(0, 0, "damaged")
    assert store.requests == [("create", "voids.json"), ("create", "0.0.void")]


def test_a_void_of_a_release_that_announced_none_is_found_once_its_output_is_voided_again(log, store):
    log.commit(record("a"))
    log.void(0, 0, "damaged")
    log.commit(record("b", generation=1))
    store.delete(["voids.json"])
    assert log.current(0).record.attempt == "a"
    log.void(0, 0, "found damaged once more")
    assert log.current(0).record.attempt == "b"


def test_a_zombie_adopts_the_generation_that_counts(log):
    log.commit(record("a"))
    log.void(0, 0, "damaged")
    log.commit(record("b", generation=1))
    assert log.commit(record("zombie")).attempt == "b"


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


def test_exactly_the_planned_maps_are_read_in_their_order(log, store):
    for map_id in range(5):
        log.commit(record("a", map_id=map_id))
    store.requests.clear()
    looks = []
    store.size = lambda key: looks.append(key)
    assert [each.map_id for each in log.records([3, 1])] == [3, 1]
    assert sorted(store.requests) == [("get", "1.0"), ("get", "3.0")]
    assert looks == ["voids.json"]
