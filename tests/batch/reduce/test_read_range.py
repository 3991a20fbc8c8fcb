import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.plan_document import extents_key
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents, ReduceInputGoneError
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.staged_changes import RangeResult, StagedChanges
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from icefloe.shuffle.extents import write_extents
from icefloe.storage.requests import Requests
from support.fakes.stores import flip_byte
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import rows


def up_to_shuffle_read(workshop: Workshop, **sizes: int) -> OpenBatch:
    workshop.set(shuffle={"partitions": 2, **sizes})
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    return batch


def read(batch: OpenBatch, requests: Requests | None = None) -> RangeResult:
    running = batch.running
    return read_range(running.folder, running.folder_of_changes, 0, requests=requests or running.requests, epoch=0)


def updated(workshop: Workshop, count: int = 400) -> Workshop:
    workshop.append([*range(count), 7, 7])
    workshop.deliver()
    workshop.update([*range(0, count, 2), 7, 7, 7], value=2.0)
    return workshop


def parts(workshop: Workshop) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (workshop.folder / "changes" / "batch=1").glob("part-*")}


def test_a_range_that_another_attempt_records_meanwhile_is_kept_and_counted_as_a_lost_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = up_to_shuffle_read(updated(Workshop.create(tmp_path)))
    slow, fast = Requests(), Requests()
    real, firsts = StagedChanges.write, []

    def write_late(*arguments: Any) -> Any:
        if not firsts:
            firsts.append(None)
            firsts[0] = read(batch, fast)
        return real(*arguments)

    monkeypatch.setattr(StagedChanges, "write", write_late)
    assert read(batch, slow) == firsts[0]
    assert (slow.taken().races_lost, fast.taken().races_lost) == (1, 0)


def test_an_identity_larger_than_memory_is_not_torn_apart(workshop: Workshop) -> None:
    workshop.append([1] * 300 + [2, 3])
    workshop.deliver()
    workshop.replace(rows([1] * 290 + [2, 4], value=2.0))
    batch = up_to_shuffle_read(workshop, memory_bytes=1)
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    changes = workshop.changes(1)
    workshop.require_exact(batch.plan, changes)
    counts = changes.group_by("_change_type").aggregate([([], "count_all")]).to_pydict()
    assert dict(zip(counts["_change_type"], counts["count_all"], strict=True)) == {
        "UPDATE_BEFORE": 291, "UPDATE_AFTER": 291, "DELETE": 11, "INSERT": 1,
    }  # fmt: skip


def test_rows_that_do_not_add_up_to_the_map_records_reach_no_sink(workshop: Workshop) -> None:
    batch = up_to_shuffle_read(updated(workshop, 20))
    extents = BatchExtents(batch.batch_folder, 0).of(0)
    [sums] = extents.ordinals
    wrong = replace(extents, ordinals=(replace(sums, hash_sum=0),))
    write_extents(batch.store, extents_key(0), [wrong], extents.files)
    with pytest.raises(TerminalError, match="range 0 of batch 1 does not add up in change ordinal 0"):
        read(batch)
    assert parts(workshop) == {}


@pytest.mark.parametrize("position", [None, 30, -1], ids=["gone", "damaged head", "damaged section"])
def test_extents_that_are_gone_or_damaged_are_written_again(workshop: Workshop, position: int | None) -> None:
    batch = up_to_shuffle_read(updated(workshop, 20))
    whole = batch.store.get(extents_key(0))
    if position is None:
        batch.store.delete([extents_key(0)])
    else:
        flip_byte(batch.store, extents_key(0), position % len(whole))
    with pytest.raises(
        ReduceInputGoneError, match=r"the extents .*, which coalesce wrote, are gone or damaged: run again"
    ):
        read(batch)
    batch.run(Phase.SHUFFLE_READ)
    assert parts(workshop)
    assert batch.store.get(extents_key(0)) == whole


def test_extents_of_a_newer_release_name_what_to_delete(workshop: Workshop) -> None:
    batch = up_to_shuffle_read(updated(workshop, 20))
    data = batch.store.get(extents_key(0))
    header = data[:7] + b"\x09" + data[8:24]
    batch.store.put(extents_key(0), header + zlib.crc32(header).to_bytes(4, "big") + data[28:])
    sentence = r"extents of version 9 .*use that release, or delete everything below .* and run again"
    with pytest.raises(TerminalError, match=sentence):
        batch.run(Phase.SHUFFLE_READ)
