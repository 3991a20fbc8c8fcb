from collections.abc import Callable
from pathlib import Path

import pytest

from support.pipelines.flights import Flights


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    """The table of the pages, and a folder to call the commands in."""
    return Flights.entered(tmp_path, monkeypatch)


@pytest.fixture
def followed(flights: Flights) -> Flights:
    """The same, and a pipeline ``flights`` with batches of all three routes and a backfill."""
    flights.write_pipeline("flights")
    flights.follow("flights")
    return flights


@pytest.fixture
def airflow(airflow_database: None) -> Callable[..., None]:
    """Airflow's command line in this process."""
    from airflow.cli.cli_parser import get_parser

    def run(*arguments: str) -> None:
        parsed = get_parser().parse_args(arguments)
        parsed.func(parsed)

    return run
