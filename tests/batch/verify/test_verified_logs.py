"""`icefloe verify` of sinks that hold changes and not rows."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from batch.verify.verified_sinks import VerifiedSinks
from icefloe.batch.verify import delivery_findings
from icefloe.batch.verify.delivery_findings import KeyedRows
from support.pipelines.workspace import icefloe
from support.sinks.memory_log import MemoryLog
from support.sinks.registered import LOGS

pytestmark = pytest.mark.slow


def remove_a_change(log: MemoryLog) -> None:
    place = next(
        place for place, each in enumerate(log._messages) if each.topic == "changes" and each.value.get("id") == 5
    )
    del log._messages[place]


def repeat_a_change(log: MemoryLog) -> None:
    log._messages.append(next(each for each in log._messages if each.topic == "changes" and each.value.get("id") == 4))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (remove_a_change, "1 keys of db.events at snapshot"),
        (repeat_a_change, "memory://log holds 6 changes of batch 0, but 5 were delivered"),
    ],
)
def test_a_log_with_other_changes_differs(
    lab: VerifiedSinks, damage: Callable[[MemoryLog], None], sentence: str
) -> None:
    lab.deliver_three_batches("log")
    damage(LOGS[""])
    found = lab.verify("log")
    assert found.code == 65
    assert sentence in found.err


def test_a_log_that_forgot_its_first_batch_is_compared_by_the_keys_that_it_has(lab: VerifiedSinks) -> None:
    lab.deliver_three_batches("log")
    log = LOGS[""]
    log._messages[:] = [each for each in log._messages if each.topic != "changes" or each.value.get("_batch") != 0]
    found = lab.verify("log", "--json")
    assert (found.code, found.err) == (0, "")
    assert found.document["notes"] == [
        "memory://log no longer holds 5 of the changes; of each key the last change was compared",
        "2 keys of db.events have no change in memory://log, and were not compared",
    ]


def test_changes_from_before_a_reload_do_not_count(lab: VerifiedSinks) -> None:
    lab.deliver_three_batches("log")
    assert icefloe("reset", lab.pipeline(sink={"type": "log"}, engine="local"), "--yes").code == 0
    lab.delete(1)
    lab.deliver("log")
    log = LOGS[""]
    log._messages[:] = [each for each in log._messages if "truncate" not in (each.value if each.key == "" else {})]
    lab.require_equal("log", rows=4)


LOGS_WITHOUT_IMAGES = [("log", {"changes": "upsert"}), ("plain", {}), ("plain", {"changes": "net"})]


@pytest.mark.parametrize(("sink", "keys"), LOGS_WITHOUT_IMAGES)
def test_a_log_without_rows_before_updates_lacks_nothing(lab: VerifiedSinks, sink: str, keys: dict[str, str]) -> None:
    lab.deliver_three_batches(sink, **keys)
    lab.require_equal(sink, rows=5, **keys)


@pytest.mark.parametrize(("sink", "keys"), LOGS_WITHOUT_IMAGES)
def test_rows_whose_identity_is_not_shown_are_not_counted_without_all_images(
    lab: VerifiedSinks, sink: str, keys: dict[str, str]
) -> None:
    lab.deliver_three_batches(sink, columns=["value", "word"], **keys)
    found = lab.verify(sink, "--json", columns=["value", "word"], **keys)
    assert (found.code, found.err) == (0, "")
    [note] = found.document["notes"]
    assert note.startswith("rows without identity are compared only if the sink holds all changes")


@pytest.mark.parametrize(("sink", "keys"), [("log", {}), ("files", {"changes": "upsert"})])
def test_many_changes_of_a_small_table_are_compared_in_slices(
    lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch, sink: str, keys: dict[str, str]
) -> None:
    read = []
    slices = KeyedRows.slices

    def measured(rows: KeyedRows) -> Iterator[pa.Table]:
        for part in slices(rows):
            read.append(len(part))
            yield part

    monkeypatch.setattr(delivery_findings, "_ROWS_PER_SLICE", 16)
    monkeypatch.setattr(KeyedRows, "slices", measured)
    lab.append(*range(16))
    lab.deliver(sink, **keys)
    for value in range(5):
        lab.update(*range(16), value=float(value + 2))
        lab.deliver(sink, **keys)
    found = lab.verify(sink, "--json", **keys)
    assert (found.code, found.document["is_equal"], found.document["rows"]) == (0, True, 16)
    changes = 16 * (1 + 5 * (1 if keys else 2))
    assert sum(read) == 16 + changes
    assert max(read) < changes / 2
