"""Stores that answer with faults for a while: a batch is slowed down and ends, or gives up within its budget."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import Credentials
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.engines.run_batch import run_batch
from icefloe.errors import TransientError
from icefloe.pipeline.model import Pipeline
from icefloe.storage import clients, object_store
from support.pipelines.workspace import Workspace
from support.servers.careless_store import careless_store
from support.tiers import extended

Storm = Callable[[str, bool], int | None]
OPTIONS = {"access_key_id": "any", "secret_access_key": "any", "region": "us-east-1", "allow_http": "true"}
TRIES = 4


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a storm: milliseconds in place of seconds."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setattr(clients, "_RETRIES", {"max_retries": TRIES, "backoff": backoff})
    monkeypatch.setattr(object_store, "_PAUSES_SECONDS", (0.001,) * 5)


@contextmanager
def pipeline_in(folder: Path, storm: Storm) -> Iterator[Callable[[], PipelineSession]]:
    """A pipeline with an update to deliver, whose stores are all in the storm; opens a session of it."""
    workspace = Workspace.create(folder)
    workspace.append(1, 2, 3)
    workspace.update(2, value=5.0)
    with careless_store(412, storm=storm) as (endpoint, _):
        options = OPTIONS | {"endpoint": endpoint}
        credentials = Credentials(storage_options=options, sink_options=options)
        keys: dict[str, Any] = {"initial_load": "from_earliest", "max_steps_per_batch": 3, "shuffle": {"partitions": 4}}
        sink = {"type": "files", "path": "s3://lake/changes"}
        pipeline = Pipeline.load(workspace.pipeline(storage="s3://lake", sink=sink, **keys))
        yield lambda: PipelineSession.open(pipeline, credentials=credentials, environ={})


def each_request_fails(status: int, times: int, *, only_creates: bool) -> tuple[Storm, Counter[str]]:
    """A storm in which each request fails so many times before the store answers, and the requests that did."""
    failed: Counter[str] = Counter()

    def storm(request: str, is_create: bool) -> int | None:
        if (only_creates and not is_create) or failed[request] >= times:
            return None
        failed[request] += 1
        return status

    return storm, failed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "times", "only_creates"),
    [
        (503, TRIES, False),
        (412, 2, True),
        extended(500, TRIES, False),
        extended(429, TRIES, False),
        extended(409, 2, True),
    ],
)
def test_a_storm_that_ends_slows_a_batch_down_and_changes_nothing(
    tmp_path: Path, status: int, times: int, only_creates: bool
) -> None:
    storm, failed = each_request_fails(status, times, only_creates=only_creates)
    with pipeline_in(tmp_path, storm) as opened:
        done = run_batch(opened(), None, environ={})
        assert done.report is not None
        assert (done.report.batch.counts["insert"], done.report.batch.counts["update_after"]) == (3, 1)
        assert sum(failed.values()) > 20
        assert verify_batches(opened()).is_equal


def test_a_storm_that_does_not_end_is_given_up_with_its_numbers(tmp_path: Path) -> None:
    seen = count()
    with pipeline_in(tmp_path, lambda _, __: 503 if next(seen) > 40 else None) as opened:
        with pytest.raises(TransientError) as caught:
            run_batch(opened(), None, environ={})
        asked = next(seen)
    numbers = r"s3://lake/.* in [\d.]+m?s, after 4 retries, max_retries: 4, retry_timeout: 40s"
    assert re.search(numbers, str(caught.value))
    assert "503" in str(caught.value)
    assert "try again, and check the endpoint and the network if it goes on" in str(caught.value)
    # It does not begin from scratch with each of its requests: some tasks at once, then a last look, and the end.
    assert asked < 40 + 30 * (TRIES + 1)
