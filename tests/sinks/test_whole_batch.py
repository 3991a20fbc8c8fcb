from dataclasses import replace

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import CommitMessage, DamagedPartsError
from sinks.delivered_changes import changes, message, summary
from sinks.written_parts import BATCH, DAMAGES, contents
from sinks.written_parts import write as write_part

FIRST = {0: changes(60), 1: changes(40, first=60), 2: changes(60, first=100)}
AGAIN = {0: changes(60), 1: changes(100, first=60)}
ALIKE = {0: changes(60, first=100), 1: changes(40, first=60), 2: changes(60)}
"""As many rows in each part as in the first, and not the same ones."""


@pytest.fixture
def sink(sink: ChangeFiles) -> ChangeFiles:
    """With a whole batch."""
    commit(sink, write(sink, FIRST))
    return sink


def write(sink: ChangeFiles, parts) -> list[CommitMessage]:
    """A message's hash sum tells its rows."""
    messages = []
    for number, rows in parts.items():
        hash_sum = sum(rows.column("id").to_pylist())
        message_ = message(number, rows.num_rows, write_part(sink, number, [rows]))
        messages.append(replace(message_, hash_sum=hash_sum))
    return messages


def commit(sink: ChangeFiles, messages: list[CommitMessage], *, rows: int = 160) -> None:
    sink.commit(summary(BATCH, rows), messages)


@pytest.mark.parametrize("again", [FIRST, AGAIN, ALIKE, {0: changes(160)}])
def test_the_same_changes_in_other_parts_leave_a_whole_batch_as_it_is(sink, folder, again):
    first = contents(folder)
    messages = write(sink, again)
    commit(sink, messages)
    assert contents(folder) == first
    # Killed before the batch is recorded: the rerun has no files of its own any more.
    commit(sink, messages)
    assert contents(folder) == first


@pytest.mark.parametrize("again", [AGAIN, ALIKE])
def test_other_changes_in_other_parts_are_refused(sink, folder, again):
    first = contents(folder)
    messages = write(sink, again)
    with pytest.raises(TerminalError, match="already holds a whole batch with other changes"):
        commit(sink, messages, rows=161)
    assert contents(folder).items() >= first.items()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_lost_part_that_a_task_makes_again_is_whole_afterwards(sink, folder, number):
    first = contents(folder)
    DAMAGES["deleted"](folder / f"batch={BATCH}/part-{number:05d}.parquet")
    commit(sink, write(sink, FIRST))
    assert contents(folder) == first


@pytest.mark.parametrize(("again", "number"), [(FIRST, 1), (AGAIN, 1), (ALIKE, 0), (ALIKE, 2)])
def test_a_damaged_part_of_a_whole_batch_is_an_error_whose_way_out_leads_out(sink, folder, again, number):
    DAMAGES["cut"](folder / f"batch={BATCH}/part-{number:05d}.parquet")
    messages = write(sink, again)
    with pytest.raises(TerminalError, match=r"batch=3 holds this whole batch .* delete everything .*batch=3 and run"):
        commit(sink, messages)
    for file in (folder / f"batch={BATCH}").iterdir():
        file.unlink()
    with pytest.raises(DamagedPartsError, match="differ from the output of their tasks") as caught:
        commit(sink, messages)
    assert set(caught.value.numbers) == again.keys()
    commit(sink, write(sink, again))
    assert sum(part.rows for part in sink.manifest(BATCH).parts) == 160
