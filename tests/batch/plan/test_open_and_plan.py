"""A batch is opened and planned, or refused before it is open."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.batch.context.references import Surroundings
from icefloe.batch.plan.make_plan import MAX_PARTITIONS, partition_count
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.errors import TerminalError
from icefloe.iceberg.manifests.manifest_avro import read_manifest_list
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from support.pipelines.workshop import Workshop


def test_a_run_that_plans_opens_checkpoint_and_sink_once_for_each_look_at_the_table(workshop: Workshop) -> None:
    workshop.append(range(10))
    opened: Counter[str] = Counter()

    def counting(url: str, **options: Any) -> Store:
        opened[url] += 1
        return open_store(url, **options)

    session = replace(workshop.session(), surroundings=Surroundings(open_store=counting))
    open_and_plan(session)
    # The table is looked at before and after the checkpoint; the third opening of the checkpoint tries its storage.
    # The sink is opened behind the second look only: no batch is open whose end it could know.
    assert (opened[session.settings.checkpoint_url], opened[session.settings.changes_folder.path]) == (3, 1)


def test_a_table_with_a_column_of_our_name_is_refused_and_leaves_no_open_batch(workshop: Workshop) -> None:
    workshop.append(range(10))
    with workshop.table.update_schema() as update:
        update.rename_column("word", "_change_type")
    workshop.delete([1])
    with pytest.raises(TerminalError, match=r"column _change_type of table db.events has the name of a column"):
        workshop.prepare()
    assert workshop.session().checkpoint.look().opened is None


def test_a_batch_that_reads_too_much_is_refused_before_it_is_opened_and_raising_the_limit_helps(
    workshop: Workshop,
) -> None:
    workshop.append(range(10))
    size = sum(workshop.table.inspect.files()["file_size_in_bytes"].to_pylist())
    sentence = (
        rf"^batch 0 of events would read {size:,} bytes of files .*, and max_scan_bytes is {size - 1:,} .*: raise "
        "max_scan_bytes, or make batches smaller by max_steps_per_batch or max_bytes_per_batch$"
    )
    with pytest.raises(TerminalError, match=sentence):
        workshop.set(max_scan_bytes=size - 1).prepare()
    assert workshop.stored_objects() == {}
    assert workshop.set(max_scan_bytes=size).deliver() is not None


def test_summaries_are_compared_step_by_step_although_changes_are_net(workshop: Workshop) -> None:
    workshop.append(range(40))
    workshop.set(changes="net").deliver()
    workshop.append([100, 101])
    workshop.delete([100, 101, 1])
    report = workshop.deliver()
    assert report is not None
    assert [(check.expected, check.found) for check in report.summary_checks] == [(2, 2), (-3, -3)]


MIB = 1 << 20


def count(*, cores: int = 1, input_bytes: int = 0, target: int = 64 * MIB) -> int:
    return partition_count("auto", cores=cores, input_bytes=input_bytes, target_size_bytes=target)[0]


def test_few_bytes_get_64_partitions_and_many_cores_ten_each() -> None:
    assert count() == 64
    assert count(cores=7) == 128
    assert count(cores=40) == 512


def test_many_bytes_get_as_many_as_they_need_up_to_a_limit() -> None:
    assert count(input_bytes=65 * 64 * MIB) == 128
    assert count(input_bytes=1 << 50) == MAX_PARTITIONS
    assert count(cores=10_000) == MAX_PARTITIONS


@given(st.integers(1, 500), st.integers(0, 1 << 45), st.integers(1, 1 << 30))
def test_automatic_numbers_are_powers_of_two(cores: int, input_bytes: int, target: int) -> None:
    number = count(cores=cores, input_bytes=input_bytes, target=target)
    assert number & (number - 1) == 0
    assert 64 <= number <= MAX_PARTITIONS


def test_the_bounds_of_a_batch_and_its_plan_read_a_manifest_list_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def note_and_read(io: Any, location: str) -> Any:
        read.append(location)
        return read_manifest_list(io, location)

    monkeypatch.setattr("icefloe.iceberg.manifests.manifest_reader.read_manifest_list", note_and_read)
    for start in (0, 10):
        workshop.append(range(start, start + 10))
    # A load that does not fit is scanned to cut it, and again to plan its part.
    [step] = workshop.set(max_bytes_per_batch=1).open().plan.spec.steps
    assert step.load_part is not None
    head = workshop.table.current_snapshot()
    assert head is not None
    assert read == [head.manifest_list]
