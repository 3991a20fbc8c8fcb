"""Parts that are damaged, and parts that late attempts of other releases write."""

import pytest

from icefloe.sinks import change_files
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import DamagedPartsError
from icefloe.storage.store import KeyMissingError
from sinks.delivered_changes import changes, message, summary
from sinks.written_parts import BATCH, DAMAGES, contents, write
from support.fakes.stores import CountingStore


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_part_that_is_not_there_as_it_was_written_is_never_named_by_a_manifest(store, folder, small_groups, damage):
    sink = ChangeFiles(store, target_file_bytes=60_000)
    parts = {0: changes(60), 1: changes(10_000)}
    messages = [message(number, rows.num_rows, write(sink, number, [rows])) for number, rows in parts.items()]
    DAMAGES[damage](folder / "batch=3" / "part-00001-1.parquet")
    with pytest.raises(DamagedPartsError, match=r"1 of 2 parts in .*batch=3 differ from .*part-00001") as caught:
        sink.commit(summary(BATCH, 10_060), messages)
    assert caught.value.numbers == (1,)
    with pytest.raises(KeyMissingError):
        sink.manifest(BATCH)
    messages[1] = message(1, 10_000, write(sink, 1, [parts[1]]))
    sink.commit(summary(BATCH, 10_060), messages)
    assert [part.rows for part in sink.manifest(BATCH).parts] == [60, 10_000]


def test_bytes_that_moved_from_one_file_of_a_part_to_another_are_seen(store, folder, small_groups):
    sink = ChangeFiles(store, target_file_bytes=60_000)
    messages = [message(0, 10_000, write(sink, 0, [changes(10_000)]))]
    first, second = (folder / "batch=3" / name for name in ("part-00000.parquet", "part-00000-1.parquet"))
    second.write_bytes(first.read_bytes()[-1:] + second.read_bytes())
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(DamagedPartsError, match=r"part-00000\.parquet has \d+ bytes, \d+ were written"):
        sink.commit(summary(BATCH, 10_000), messages)


def test_existing_results_are_seen_by_one_listing(sink, store):
    messages = [message(number, 5, write(sink, number, [changes(5)])) for number in range(20)]
    counting = CountingStore(store)
    ChangeFiles(counting).commit(summary(BATCH, 100), messages)
    assert counting.calls == {"list": 1, "create": 1}


def test_a_new_part_takes_one_write(store):
    counting = CountingStore(store)
    write(ChangeFiles(counting), 0, [changes(60)])
    assert counting.calls == {"create": 1}


def test_files_stay_below_what_one_request_can_carry_whatever_the_target(store, folder, small_groups, monkeypatch):
    monkeypatch.setattr(change_files, "_MOST_FILE_BYTES", 60_000)
    for number, target_file_bytes in enumerate((None, 10**9)):
        written = write(ChangeFiles(store, target_file_bytes=target_file_bytes), number, [changes(10_000)])
        assert len(written) > 2
        assert max(written.values()) < 120_000


@pytest.mark.parametrize("damage", ["emptied", "cut", "longer", "overwritten"])
def test_a_damaged_part_stays_and_is_written_again(sink, folder, damage):
    write(sink, 0, [changes(5_000)])
    part = folder / "batch=3" / "part-00000.parquet"
    data = part.read_bytes()
    if damage == "overwritten":
        part.write_bytes(bytes(len(data)))
    else:
        DAMAGES[damage](part)
    damaged = part.read_bytes()
    assert list(write(sink, 0, [changes(5_000)])) == ["part-00000.1.parquet"]
    assert contents(folder) == {"batch=3/part-00000.parquet": damaged, "batch=3/part-00000.1.parquet": data}
