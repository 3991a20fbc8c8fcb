import pytest

from icefloe.checkpoint.record_store import RecordStore
from icefloe.checkpoint.records import OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError
from icefloe.storage.location import open_store
from support.fakes.stores import Fault, FaultyStore
from support.sample_records import an_offset, the_pipeline


@pytest.fixture
def store(tmp_path):
    return open_store((tmp_path / "a b%").as_uri())


def test_a_record_that_is_missing_is_none(store):
    assert RecordStore(store).load(PipelineRecord, "pipeline.json") is None


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
    with pytest.raises(TerminalError, match=r"a%20b%25/offsets/4\.json is of batch 3: it was copied"):
        records.load(OffsetRecord, "offsets/4.json", batch_number=4)


def test_a_record_removed_after_the_race_is_an_error_that_says_run_again(store):
    store.create("pipeline.json", b"theirs")
    rival = FaultyStore(store, Fault(operation="create", is_after=True, action=lambda: store.delete(["pipeline.json"])))
    with pytest.raises(TerminalError, match=r"pipeline\.json was removed .* run again"):
        RecordStore(rival).create(the_pipeline(), "pipeline.json")
