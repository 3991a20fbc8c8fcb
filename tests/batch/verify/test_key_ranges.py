"""A table is compared with a mirror in ranges of keys, each as of a batch that the mirror names."""

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from icefloe.batch.verify import verify_delivery as verifying
from icefloe.batch.verify.key_ranges import KeyRange, cut_points
from icefloe.sinks.iceberg.mirror import MirrorSink
from support.pipelines.flights import Flights
from support.pipelines.workspace import Outcome, icefloe

SINK = {"type": "iceberg", "table": "changes.mirror", "mode": "mirror"}


def test_cuts_divide_rows_that_are_not_spread_evenly() -> None:
    assert cut_points([(0, 9, 900), (1000, 1999, 100)], 500) == [6]
    assert cut_points([(5, 5, 100)], 10) == []
    assert cut_points([], 10) == []
    assert cut_points([(-(2**63), 2**63 - 1, 100)], 50) == [0]


def test_keys_that_are_larger_than_exact_floats_are_divided() -> None:
    # The keys of a small file are one float, and no cut is above the largest key.
    first, largest = 175 * 10**16, 2**63 - 1
    [cut] = cut_points([(first, first, 1), (first + 1000, first + 10**6, 100)], 100)
    assert first + 1000 < cut < first + 10**6
    assert all(cut <= largest for cut in cut_points([(largest, largest, 100), (0, 10, 1)], 20))


def test_a_range_says_its_ends() -> None:
    assert [str(KeyRange(column="id", first=first, stop=stop)) for first, stop in ((None, 0), (0, 5), (5, None))] == [
        "id below 0", "id from 0 on below 5", "id from 5 on"
    ]  # fmt: skip


@pytest.mark.parametrize("overlap", [0, 3])
def test_a_table_that_is_not_sorted_by_its_key_is_read_a_few_times_at_most(overlap: int) -> None:
    spans = [(place * 100, place * 100 + 99 + overlap * 100, 1000) for place in range(50)]
    cuts = cut_points(spans, 2000)
    reads = [sum(low < cut <= high for cut in cuts) + 1 for low, high, _ in spans]
    assert sum(reads) <= 3 * len(spans)
    assert len(cuts) >= 20
    assert len(cut_points([(0, 10**6, 1000)] * 50, 100)) == 2


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    flights = Flights.entered(tmp_path, monkeypatch)
    # One range for each file.
    monkeypatch.setattr(verifying.verify_delivery, "__kwdefaults__", {"first": None, "rows_per_range": 2})
    flights.lake.table.catalog.create_namespace("changes")
    flights.write_pipeline("flights", sink=SINK)
    for first in (0, 10, 20):
        flights.lake.append((first, "AA"), (first + 1, "UA"))
    run()
    return flights


def run() -> None:
    done = icefloe("run", "flights")
    assert done.code == 0, done.err


def mirror(flights: Flights) -> Table:
    return flights.lake.table.catalog.load_table("changes.mirror")


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, int | None]]:
    found = []
    read = MirrorSink.read_range

    def noting(*given: Any, **ends: Any) -> Any:
        found.append((ends["first"], ends["stop"]))
        return read(*given, **ends)

    monkeypatch.setattr(MirrorSink, "read_range", noting)
    return found


def verify(*arguments: object) -> Outcome:
    return icefloe("verify", "flights", *arguments)


def test_all_keys_are_in_one_range(flights: Flights, ranges: list[Any]) -> None:
    done = verify()
    assert (done.code, "holds exactly the 6 rows of nyc.flights" in done.out) == (0, True), done.err
    assert ranges == [(None, 10), (10, 20), (20, None)]


def test_differences_are_found_in_every_range_and_read_once_more(flights: Flights, ranges: list[Any]) -> None:
    mirror(flights).delete("flight_id = 0")
    mirror(flights).append(
        pa.Table.from_pylist([{"flight_id": 30, "carrier": "XX"}], mirror(flights).schema().as_arrow())
    )
    done = verify()
    assert done.code == 65
    assert "1 keys of nyc.flights" in done.err
    assert ("flight_id=0" in done.err, "flight_id=30" in done.err) == (True, True)
    assert verify("--from", 1).err.count("flight_id=") == 1


def test_a_difference_that_is_gone_when_it_is_read_once_more_is_none(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = MirrorSink.read_range
    monkeypatch.setattr(
        MirrorSink, "read_range", lambda *given, **ends: (rows.slice(1) for rows in read(*given, **ends))
    )
    assert verify().code == 0


def interrupted(monkeypatch: pytest.MonkeyPatch, at: int, work: Callable[[], object]) -> None:
    """Lets something happen right after a range was read."""
    read = MirrorSink.read_range

    def reading(*given: Any, **ends: Any) -> Any:
        yield from read(*given, **ends)
        if ends["first"] == at:
            work()

    monkeypatch.setattr(MirrorSink, "read_range", reading)


def test_a_range_is_compared_again_after_a_batch_that_came_meanwhile(
    flights: Flights, monkeypatch: pytest.MonkeyPatch, ranges: list[Any]
) -> None:
    left = [partial(flights.lake.replace_carrier, 10, "B6")]

    def deliver() -> None:
        if left:
            left.pop()()
            run()

    interrupted(monkeypatch, 10, deliver)
    assert verify().code == 0
    assert ranges == [(None, 10), (10, 20), (10, 20), (20, None)]


def test_a_range_that_always_changes_says_where_to_go_on(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = count(99)

    def deliver() -> None:
        flights.lake.append((next(keys), "B6"))
        run()

    with monkeypatch.context() as busy:
        interrupted(busy, 10, deliver)
        done = verify()
    assert done.code == 75
    assert done.err.endswith("verify again when no batch is open; go on with --from 10\n")
    assert verify("--from", 10).code == 0


@pytest.mark.parametrize("is_doubled", [False, True])
def test_ranges_behind_one_with_differences_do_not_count_as_done(
    flights: Flights, monkeypatch: pytest.MonkeyPatch, is_doubled: bool
) -> None:
    if is_doubled:
        mirror(flights).append(mirror(flights).scan("flight_id = 0").to_arrow())
    else:
        mirror(flights).delete("flight_id = 0")
    keys = count(99)

    def deliver() -> None:
        flights.lake.append((next(keys), "B6"))
        run()

    interrupted(monkeypatch, 10, deliver)
    done = verify()
    assert (done.code, "--from" in done.err) == (75, False), done.err


def test_a_mirror_without_a_key_is_compared_while_batches_come(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = pa.schema([("word", pa.string())])
    table = flights.lake.table.catalog.create_table("nyc.words", columns)

    def append(*words: str) -> None:
        table.append(pa.table({"word": words}, columns))
        assert icefloe("run", "words").code == 0

    flights.write_pipeline("words", table="nyc.words", sink={**SINK, "table": "changes.words", "identity": "rows"})
    append("a", "b")
    coming, read = ["c", "d"], MirrorSink.read_back

    def reading(*given: Any, **keys: Any) -> Any:
        yield from read(*given, **keys)
        if coming:
            append(coming.pop())

    monkeypatch.setattr(MirrorSink, "read_back", reading)
    done = icefloe("verify", "words")
    assert (done.code, "holds exactly the 4 rows of nyc.words" in done.out) == (0, True), done.out + done.err
    flights.lake.table.catalog.load_table("changes.words").delete("word = 'a'")
    coming.append("e")
    assert icefloe("verify", "words").code == 65
    coming.extend("fghij")
    assert icefloe("verify", "words").code == 75
    assert icefloe("verify", "words", "--from", 3).code == 2


def test_nothing_to_compare_is_no_success(flights: Flights) -> None:
    assert icefloe("reset", "flights", "--yes").code == 0
    done = verify()
    assert (done.code, "no batch of flights is delivered to iceberg://" in done.err) == (75, True), done.err


def test_a_mirror_that_was_restored_is_named(flights: Flights) -> None:
    token = mirror(flights).properties["icefloe.token"]
    flights.lake.replace_carrier(1, "B6")
    run()
    with mirror(flights).transaction() as transaction:
        transaction.set_properties({"icefloe.token": token})
    done = verify()
    assert (done.code, "ends with batch 0, and batch 1 of flights was delivered" in done.err) == (65, True), done.err


def test_other_sinks_and_keys_have_no_ranges(flights: Flights) -> None:
    flights.write_pipeline("flights", sink={"type": "files", "path": f"file://{flights.folder}/changes"})
    assert verify("--from", 3).code == 2
    flights.write_pipeline("log", sink={**SINK, "table": "changes.log", "mode": "changelog"})
    assert icefloe("run", "log").code == 0
    assert icefloe("verify", "log", "--from", 3).code == 2
    flights.write_pipeline(
        "texts", {"identifier_columns": ["carrier", "flight_id"]}, sink={**SINK, "table": "changes.texts"}
    )
    assert icefloe("run", "texts").code == 0
    assert icefloe("verify", "texts").code == 0
    assert icefloe("verify", "texts", "--from", 3).code == 2
