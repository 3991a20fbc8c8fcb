"""A release that meets documents of a newer one stops with a sentence that says so."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from icefloe.engines.phase_runner import PhaseRunner
from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe

FOREIGN = "by this release"


@pytest.mark.parametrize(
    ("document", "halted_at", "sentence"),
    [
        ("checkpoints/flights/pipeline.json", "commit", FOREIGN),
        ("shuffle/flights/*/1/plan.json", "commit", FOREIGN),
        ("shuffle/flights/*/1/tasks/*.json", "run", "differs from the plan of its batch"),
    ],
)
def test_a_newer_document_stops_an_older_release(
    document: str, halted_at: str, sentence: str, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    halt(flights, halted_at, monkeypatch)
    with newer_version(flights, document):
        stopped = icefloe("run", "flights")
        assert stopped.code == 65
        assert sentence in stopped.sentence
    assert icefloe("run", "flights").code == 0


def test_a_record_that_says_more_stops_an_older_release_although_its_version_is_known(flights: Flights) -> None:
    flights.write_pipeline("flights")
    flights.follow("flights")
    record = flights.folder / "flights/storage/checkpoints/flights/commits/1.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "unheard_of": None}))
    flights.lake.append((3, "B6"))
    assert FOREIGN in icefloe("run", "flights").sentence


def test_a_status_of_a_newer_release_stops_nothing(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> None:
    halt(flights, "commit", monkeypatch)
    rewrite(flights.folder / "flights/storage/checkpoints/flights/status.json")
    assert icefloe("run", "flights").code == 0


def halt(flights: Flights, halted_at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a pipeline to the middle of its second batch: before a method of its runner is called."""
    flights.write_pipeline("flights")
    flights.lake.append((1, "AA"), (2, "UA"))
    assert icefloe("run", "flights").code == 0
    flights.lake.replace_carrier(2, "DL")

    def break_off(*_: Any, **__: Any) -> None:
        raise RuntimeError(halted_at)

    with monkeypatch.context() as broken:
        broken.setattr(PhaseRunner, halted_at, break_off)
        assert icefloe("run", "flights").code == 70


@contextmanager
def newer_version(flights: Flights, document: str) -> Iterator[None]:
    [path] = (flights.folder / "flights" / "storage").glob(document)
    before = path.read_bytes()
    rewrite(path)
    yield
    path.write_bytes(before)


def rewrite(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 9, "unheard_of": True}))
