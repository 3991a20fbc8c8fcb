from contextlib import nullcontext

import pytest

from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.committed_output import CorruptMapOutputError, MapOutputRecord, read_committed_output
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows
from support.pipelines.transfers import blocks_in_a_file_of_their_own

SCHEMA = BlockRows.schema(TABLE_SCHEMA)
P = 4


@pytest.fixture
def record(store):
    return commit_rows(store, some_rows(20, num_partitions=P, ordinals=2), num_partitions=P)


def read(store, record, schema=SCHEMA, num_partitions=P):
    return read_committed_output(store, record, schema=schema, num_partitions=num_partitions)


@pytest.mark.parametrize("is_apart", [False, True], ids=["one file", "two files"])
def test_every_damaged_byte_and_every_truncation_of_the_index_is_detected(store, is_apart):
    with blocks_in_a_file_of_their_own() if is_apart else nullcontext():
        record = commit_rows(store, some_rows(20, num_partitions=P, ordinals=2), num_partitions=P)
    key = record.index.key
    whole = store.objects[key]
    for position in range(record.index.size_bytes):
        store.flip(key, position)
        with pytest.raises(CorruptMapOutputError):
            read(store, record)
        store.objects[key] = whole[:position]
        with pytest.raises(CorruptMapOutputError):
            read(store, record)
        store.objects[key] = whole


def test_files_swapped_between_map_outputs_are_detected(store, record):
    other = commit_rows(store, some_rows(20, num_partitions=P, first_id=20), num_partitions=P, map_id=1)
    store.objects[record.index.key] = store.objects[other.index.key]
    with pytest.raises(CorruptMapOutputError, match="does not match"):
        read(store, record)


def test_the_output_of_another_plan_is_refused(store, record):
    with pytest.raises(CorruptMapOutputError, match="another number of partitions"):
        read(store, record, num_partitions=8)
    with pytest.raises(CorruptMapOutputError, match="another schema"):
        read(store, record, schema=SCHEMA.remove(0))


def test_the_record_of_an_insert_only_task_has_no_shuffle_files(store):
    with pytest.raises(CorruptMapOutputError, match="no shuffle files"):
        read(store, MapOutputRecord(map_id=0, generation=0, attempt="a", part={}))
