from math import log2

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icefloe.checkpoint.record_store import RecordStore, backfill_prefix, last_present
from icefloe.checkpoint.records import OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError, UsageError
from icefloe.storage.location import open_store
from support.fakes.stores import Fault, FaultyStore
from support.sample_records import an_offset, the_pipeline


@pytest.fixture
def store(tmp_path):
    return open_store((tmp_path / "a b%").as_uri())


def test_the_value_that_create_returns_is_the_value_that_a_reader_sees(store):
    records = RecordStore(store)
    created = records.create(the_pipeline(result_configuration={"columns": ("a", "b")}), "pipeline.json")
    assert created.result_configuration == {"columns": ["a", "b"]}
    assert created == RecordStore(store).load(PipelineRecord, "pipeline.json")


def test_a_record_that_no_reader_could_read_is_never_written(store):
    with pytest.raises(TerminalError, match=r"pipeline\.json cannot be read as PipelineRecord"):
        RecordStore(store).create(the_pipeline(name=None), "pipeline.json")
    assert list(store.list("")) == []


def test_a_copied_record_is_recognized_by_its_batch_number(store):
    records = RecordStore(store)
    records.create(an_offset(3), "offsets/3.json")
    store.put("offsets/4.json", store.get("offsets/3.json"))
    with pytest.raises(TerminalError, match=r"a%20b%25/offsets/4\.json has the number 3: it was copied"):
        records.load(OffsetRecord, "offsets/4.json", number=4)


def test_a_record_removed_after_the_race_is_an_error_that_says_run_again(store):
    store.create("pipeline.json", b"theirs")
    rival = FaultyStore(store, Fault(operation="create", is_after=True, action=lambda: store.delete(["pipeline.json"])))
    with pytest.raises(TerminalError, match=r"pipeline\.json was removed .* run again"):
        RecordStore(rival).create(the_pipeline(), "pipeline.json")


@pytest.mark.parametrize("backfill_id", ["", "..", ".x", "a/b", "a b", "a#1", "ü", "a\n"])
def test_an_id_that_could_be_no_folder_is_refused(backfill_id):
    with pytest.raises(UsageError, match="cannot be the id of a backfill"):
        backfill_prefix(backfill_id)


@given(count=st.integers(0, 10**6))
@example(count=0)
@example(count=1)
@example(count=2)
def test_the_last_of_any_count_is_found_in_logarithmic_time_and_without_asking_twice(count):
    asked = []

    def is_present(number):
        asked.append(number)
        return number < count

    assert last_present(is_present) == (count - 1 if count else None)
    assert len(asked) <= 2 * log2(count + 1) + 3
    assert len(set(asked)) == len(asked)
