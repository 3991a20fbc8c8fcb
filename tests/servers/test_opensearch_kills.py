"""Processes that are killed while they deliver to the real search cluster; others go on where they were."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from icefloe.testing.processes import DeliveringProcess, Fault, OutwardCalls, ProcessEndedError
from icefloe.testing.sink_under_test import require_content
from servers import opensearch_process
from servers.opensearch_place import OpenSearchPlace
from servers.opensearch_process import batches_of, open_sink, versions_of
from support.servers.opensearch import OpenSearch

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1800)]

TRIES = 6
"""Processes that are struck."""
SEED = 0


@pytest.mark.extended
def test_after_any_kills_the_index_is_the_table(
    opensearch: OpenSearch, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    place, random = OpenSearchPlace(url=opensearch.url), Random(SEED)
    codes = []
    for number in range(TRIES):
        # The first strike hits for sure; a moment may come too late, and then the last batch is delivered once more.
        call = random.randrange(2 * (number + 1))
        strike = ["moment", str(random.randrange(1, 250))] if number % 2 else ["call", str(call)]
        codes.append(run_process(place, tmp_path, SEED, *strike))
        (tmp_path / f"ended-{last_number(SEED)}").unlink(missing_ok=True)
    assert codes[0] == -signal.SIGKILL
    assert {*codes} <= {0, -signal.SIGKILL}
    assert run_process(place, tmp_path, SEED) == 0
    record_property("kills", codes.count(-signal.SIGKILL))
    history, _ = batches_of(SEED)
    sink = place.sink()
    require_content(sink, history)
    sink.close()
    [shown] = place.ask("GET", place.index)
    held = place.versions(shown)
    expected = versions_of(SEED)
    assert {key: held[key] for key in expected} == expected
    assert place.indexes() == {shown, f"{place.index}-icefloe"}
    place.remove()


@pytest.mark.extended
def test_readers_see_the_old_load_or_the_new_one_wherever_a_process_is_killed(opensearch: OpenSearch) -> None:
    _, batches = batches_of(3)
    first, changed, second = batches[:2], batches[2:4], batches[4:6]
    kinds, place_number, is_struck = set(), 0, True
    while is_struck:
        place = OpenSearchPlace(url=opensearch.url)
        opener = lambda calls, place=place: open_sink(place.url, place.index, calls)  # noqa: E731
        for staged in batches:
            staged.recorded.clear()
            staged.ended.clear()
        DeliveringProcess(opener).run(*first, *changed, claims=True)
        old = place.found()
        calls = OutwardCalls(Fault.KILLED_AFTER, place_number)
        is_struck = True
        try:
            DeliveringProcess(opener, calls).run(*second)
            is_struck = False
        except ProcessEndedError:
            pass
        seen = place.found()
        DeliveringProcess(opener).run(*second)
        new = place.found()
        assert seen in (old, new), calls.where
        kinds.add("old" if seen == old else "new")
        place.remove()
        place_number += 3
    assert kinds == {"old", "new"}


def run_process(place: OpenSearchPlace, folder: Path, seed: int, *strike: str) -> int:
    """The exit code of a process that goes on with the history."""
    command = [sys.executable, opensearch_process.__file__, place.url, place.index, str(folder), str(seed), *strike]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode <= 0, done.stderr
    return done.returncode


def last_number(seed: int) -> int:
    return batches_of(seed)[1][-1].batch.batch_number
