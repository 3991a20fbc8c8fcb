import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from icefloe.batch.phase_record import LostNode
from icefloe.batch.report import BatchDelivery, BatchReport
from icefloe.batch.status import Expiry, Pins, PipelineStatus, Trouble
from icefloe.orchestration.telemetry import report_metrics, send_failure, send_report, send_status, status_metrics
from support.pipelines.workshop import Workshop

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OPERATIONS = Path(__file__).parents[3] / "docs/operations.md"


class Recorder:
    """A backend of Airflow's Stats that remembers."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, Any, dict[str, str]]] = {}

    def incr(self, stat: str, count: int = 1, *, tags: dict[str, str]) -> None:
        self.sent[stat] = ("counter", count, tags)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        self.sent[stat] = ("gauge", value, tags)

    def timing(self, stat: str, dt: timedelta, *, tags: dict[str, str]) -> None:
        self.sent[stat] = ("timing", dt, tags)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    stats.initialize(factory=lambda: made, export_legacy_names=True)
    yield made
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop.create(tmp_path)


@pytest.fixture
def report(workshop: Workshop) -> BatchReport:
    """Of a shuffled batch."""
    workshop.append(range(50))
    workshop.deliver()
    workshop.update([1, 2], value=2.0)
    made = workshop.deliver()
    assert made is not None
    return made


FIGURES: dict[str, Any] = {
    "documents": 120,
    "repeated": 11,
    "retries": 12,
    "refused": 13,
    "dead_letters": 14,
    "superseded": 15,
}
DELIVERY = BatchDelivery(
    parts=1, bytes=9000, sink="opensearch", url="https://search:9200/flights", visible_at=NOW.isoformat(),
    lag_seconds=2.5, seconds=1.0, **FIGURES,
)  # fmt: skip


def gauges(status: PipelineStatus) -> dict[str, float]:
    return {metric.name: metric.value for metric in status_metrics(status, now=NOW)}


def status(**fields: Any) -> PipelineStatus:
    return PipelineStatus(pipeline="flights", table="nyc.flights", branch="main", updated_at=NOW.isoformat(), **fields)


def before(**ago: float) -> str:
    return (NOW - timedelta(**ago)).isoformat()


def test_a_pipeline_that_is_up_to_date_is_not_behind_and_an_unknown_lag_is_not_zero() -> None:
    assert gauges(status(lag_snapshots=0, lag_rows=0)) == {
        "lag.snapshots": 0, "lag.rows": 0, "lag.seconds": 0.0, "open_batch.seconds": 0.0, "trouble": 0,
    }  # fmt: skip
    assert gauges(status()).keys() == {"open_batch.seconds", "trouble"}


def test_waiting_open_batches_trouble_and_expiry_are_reported_in_seconds() -> None:
    told = gauges(
        status(
            lag_snapshots=3, waiting_since=before(minutes=5), open_batch=7, open_since=before(minutes=2),
            trouble=Trouble(sentence="", phase="plan", at="", is_final=True),
            next_expiry=Expiry(snapshot_id=1, at=before(hours=-1)),
            pins=Pins(branch="icefloe_flights_01234567", snapshots=4, up_to_snapshot_id=1, oldest_at=None),
        )
    )  # fmt: skip
    assert told == {
        "lag.snapshots": 3, "lag.seconds": 300, "open_batch.seconds": 120, "trouble": 1, "pinned.snapshots": 4,
        "expiry.seconds": 3600,
    }  # fmt: skip


def test_the_metrics_of_a_batch_have_tags_and_the_name_of_its_pipeline(recorder: Recorder, report: BatchReport) -> None:
    send_report(report)
    tags = {"pipeline": "events", "table": "db.events"}
    assert recorder.sent["icefloe.batch.committed.shuffle"] == ("counter", 1, tags)
    assert recorder.sent["icefloe.events.batch.committed.shuffle"] == ("counter", 1, tags)
    assert recorder.sent["icefloe.changes.update_after"] == ("counter", 2, tags)
    assert recorder.sent["icefloe.rows.carried_over_ratio"] == ("gauge", 96 / 100, tags)
    kind, time, _ = recorder.sent["icefloe.phase.shuffle_read.time"]
    assert (kind, time > timedelta(0)) == ("timing", True)


def test_documents_and_lag_of_a_delivered_batch_are_sent(recorder: Recorder, report: BatchReport) -> None:
    send_report(replace(report, delivery=DELIVERY))
    sent = {name.removeprefix("icefloe.events."): value for name, (_, value, _) in recorder.sent.items()}
    assert {name: sent[f"delivery.{name}"] for name in FIGURES} == FIGURES
    assert (sent["bytes.delivered"], sent["delivery.lag"]) == (9000, timedelta(seconds=2.5))


def test_a_status_and_a_failure_are_sent(recorder: Recorder, workshop: Workshop) -> None:
    workshop.append([1])
    published = PipelineStatus.publish(workshop.session(), phase="plan")
    assert published is not None
    send_status(published)
    send_failure("events", "db.events", "plan", is_final=True)
    assert recorder.sent["icefloe.events.lag.snapshots"][1] == 1
    assert recorder.sent["icefloe.task.failed.final"][1] == recorder.sent["icefloe.task.failed.plan"][1] == 1


def test_a_node_that_lost_map_outputs_has_a_counter_of_its_own(recorder: Recorder, report: BatchReport) -> None:
    first, then = (replace(report.phases[-1], nodes_lost=(lost_node(count),)) for count in (2, 3))
    send_report(replace(report, phases=(first, then)))
    assert recorder.sent["icefloe.events.node.worker-1_example_com_4995.map_outputs_lost"][1] == 5


def lost_node(map_outputs: int) -> LostNode:
    return LostNode(address="worker-1.example.com:4995", map_outputs=map_outputs, reason="it does not answer")


def test_a_backend_that_fails_stops_nothing(
    recorder: Recorder, report: BatchReport, caplog: pytest.LogCaptureFixture
) -> None:
    stats.initialize(factory=lambda: object(), export_legacy_names=True)
    send_report(report)
    assert "metrics of events could not be sent" in caplog.text


def test_every_metric_is_in_the_table_of_the_docs(report: BatchReport) -> None:
    documented = set(re.findall(r"`([a-z_.<>]+)`", OPERATIONS.read_text()))
    full = status(
        lag_snapshots=1,
        lag_rows=1,
        waiting_since=before(days=1),
        next_expiry=Expiry(snapshot_id=1, at=before()),
        pins=Pins(branch="b", snapshots=1, up_to_snapshot_id=1, oldest_at=None),
    )
    phases = (replace(report.phases[-1], nodes_lost=(lost_node(1),)),)
    told = replace(report, delivery=DELIVERY, phases=phases)
    sent = [*report_metrics(told), *report_metrics(report), *status_metrics(full, now=NOW)]
    for name in {metric.name for metric in sent}:
        generic = re.sub(r"^phase\.[a-z_]+\.", "phase.<phase>.", name)
        generic = re.sub(r"^node\.[^.]+\.", "node.<address>.", generic)
        generic = re.sub(r"^requests\.(?!failed|again|time|found_there).*", "requests.<kind>", generic)
        generic = re.sub(r"^changes\..*", "changes.<type>", generic)
        assert re.sub(r"^batch\.committed\..*", "batch.committed.<route>", generic) in documented, json.dumps(name)
