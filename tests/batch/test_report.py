from icefloe.batch.report import BatchReport
from support.pipelines.workshop import Workshop


def shuffled(workshop: Workshop) -> BatchReport:
    workshop.append(range(50))
    workshop.append(range(50, 100))
    workshop.deliver()
    workshop.update([1, 60], value=2.0)
    workshop.set(shuffle={"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1})
    report = workshop.deliver()
    assert report is not None
    return report


def test_a_report_has_the_time_of_each_phase(workshop: Workshop) -> None:
    report = shuffled(workshop)
    assert [phase.phase for phase in report.phases] == ["plan", "shuffle_write", "coalesce", "shuffle_read", "commit"]
    assert all(phase.seconds > 0 and phase.attempts == 1 for phase in report.phases)
    assert report.seconds is not None
    assert report.seconds >= sum(phase.seconds for phase in report.phases[1:4])


def test_a_report_has_the_spread_of_bytes_and_times(workshop: Workshop) -> None:
    report = shuffled(workshop)
    assert report.map_task_bytes is not None
    assert report.range_bytes is not None
    assert report.map_task_bytes.minimum <= report.map_task_bytes.median <= report.map_task_bytes.maximum
    assert len(report.map_task_bytes.largest) == min(5, report.map_tasks)
    assert report.fetched_bytes == report.shuffled_bytes
    assert sum(extreme.value for extreme in report.range_bytes.largest) <= report.shuffled_bytes


def test_rows_read_less_those_carried_over_are_the_rows_shuffled(workshop: Workshop) -> None:
    report = shuffled(workshop)
    assert report.removed_rows_read is not None
    assert report.added_rows_read is not None
    assert report.removed_rows_read + report.added_rows_read - report.carried_over_rows == report.shuffled_rows
    assert report.fetched_blocks


def test_an_insert_only_batch_has_no_ranges(workshop: Workshop) -> None:
    workshop.append(range(10))
    report = workshop.deliver()
    assert report is not None
    assert [phase.phase for phase in report.phases] == ["plan", "insert_only", "commit"]
    assert (report.range_bytes, report.range_seconds, report.fetched_blocks) == (None, None, 0)
    assert (report.removed_rows_read, report.added_rows_read) == (0, 10)
