from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.errors import TerminalError, TransientError
from icefloe.shuffle import extents as extents_module
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import read_committed_outputs
from icefloe.shuffle.extents import CollectedBlocks
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

P = 8
RANGES = [ReduceRange(range_id=0, start=0, stop=3), ReduceRange(range_id=1, start=3, stop=8)]


def committed(counts):
    """Map outputs of so many rows of two change ordinals."""
    store = MemoryStore()
    records = [
        commit_rows(
            store, some_rows(rows, num_partitions=P, ordinals=2, first_id=100 * map_id), num_partitions=P, map_id=map_id
        )
        for map_id, rows in enumerate(counts)
    ]
    outputs, _ = read_committed_outputs(store, records, schema=block_schema(TABLE_SCHEMA), num_partitions=P)
    return store, records, outputs


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    bounds=st.sets(st.integers(1, P - 1), max_size=4),
    group_blocks=st.integers(1, 40),
    window_blocks=st.integers(1, 40),
)
def test_each_range_gets_exactly_its_blocks_whatever_goes_to_disk(counts, bounds, group_blocks, window_blocks):
    store, records, outputs = committed(counts)
    edges = [0, *sorted(bounds), P]
    ranges = [
        ReduceRange(range_id=number, start=start, stop=stop) for number, (start, stop) in enumerate(pairwise(edges))
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extents_module, "_GROUP_BLOCKS", group_blocks)
        patched.setattr(extents_module, "_WINDOW_BLOCKS", window_blocks)
        planned = planned_extents(store, records, ranges, table_schema=TABLE_SCHEMA, num_partitions=P)
    assert [(each.range_id, each.start, each.stop) for each in planned] == [
        (each.range_id, each.start, each.stop) for each in ranges
    ]
    for extents in planned:
        found = [
            (extents.files[output].map_id, reduce_id, offset, length, rows, crc32)
            for output, reduce_id, crc32, offset, length, rows, _ in extents.blocks.tolist()
        ]
        assert found == [
            (output.record.map_id, reduce_id, output.record.blocks_at + start, stop - start, rows, crc32)
            for output in outputs
            for reduce_id, (start, stop, rows, crc32) in enumerate(
                zip(
                    output.offsets.tolist(),
                    output.offsets[1:].tolist(),
                    output.statistics.partition_rows(P).tolist(),
                    output.block_crc32.tolist(),
                    strict=False,
                )
            )
            if rows and extents.start <= reduce_id < extents.stop
        ]
        assert extents.size_bytes == sum(length for _, _, _, length, _, _ in found)


def test_the_sums_of_a_range_are_those_of_its_statistics():
    store, records, outputs = committed([40, 0, 1, 33])
    for extents in planned_extents(store, records, RANGES, table_schema=TABLE_SCHEMA, num_partitions=P):
        expected = {}
        for output in outputs:
            for each in output.statistics.sums(extents.start, extents.stop):
                before = expected.get(each.change_ordinal)
                expected[each.change_ordinal] = each if before is None else before + each
        assert extents.ordinals == tuple(expected[ordinal] for ordinal in sorted(expected))
        assert len(extents.ordinals) == 2


def test_the_bytes_of_partitions_add_up_over_the_outputs():
    _, records, outputs = committed([40, 9])
    with CollectedBlocks(P) as collected:
        for output in outputs:
            collected.add(output)
        assert collected.partition_bytes.sum() == sum(record.data.size_bytes for record in records)
        assert np.array_equal(collected.partition_bytes, sum(np.diff(output.offsets) for output in outputs))


def test_rows_that_no_range_covers_are_never_dropped():
    store, records, _ = committed([40])
    with pytest.raises(TerminalError, match="reduce partition 3 has rows and no reduce range covers it"):
        planned_extents(store, records, RANGES[:1], table_schema=TABLE_SCHEMA, num_partitions=P)


def test_a_full_disk_under_the_blocks_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(extents_module, "_GROUP_BLOCKS", 1)
    monkeypatch.setattr(extents_module, "task_folder", lambda *_: nullcontext(tmp_path))
    (tmp_path / "blocks").symlink_to("/dev/full")
    store, records, _ = committed([40] * 60)
    with pytest.raises(TransientError, match=r"cannot be put in order: .*No space left on device"):
        planned_extents(store, records, RANGES, table_schema=TABLE_SCHEMA, num_partitions=P)
