from __future__ import annotations

import gc
import os
import secrets
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

import airflow_environment  # noqa: F401 - doctests and tests import airflow; its home must be chosen before
from support.known_key import known_bits

# Collected for doctests it would run once more, after airflow was imported.
collect_ignore = ["airflow_environment.py"]

if TYPE_CHECKING:
    from pathlib import Path

    from support.pipelines.workspace import Workspace
    from support.spark.spark_lab import SparkLab

# Thousands of modules and tests are made until the first test begins, and live to the end. Looking through them for
# garbage again and again took a fifth of the time that collecting the tests took, and a part of each test's.
gc.disable()


secrets.randbits = known_bits

# A deadline is a timed test: an example that takes long on a busy machine is not wrong. The examples are those of each
# other run, so that a commit is red or green for good; `make soak` tries others each time.
hypothesis.settings.register_profile(
    "icefloe",
    deadline=None,
    derandomize="ICEFLOE_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("icefloe")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two cores: most tests compute, and some wait."""
    return ceil(1.5 * (os.cpu_count() or 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share something costly run in one process."""
    from side_by_side import GroupScheduling

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The groups of tests that take longest begin first, where several processes run them."""
    if config.pluginmanager.hasplugin("xdist") and hasattr(config, "workerinput"):
        from side_by_side import rank_of

        items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Shows which groups of tests took longest, where several processes ran them."""
    from side_by_side import times_of_groups

    found = [each for reports in terminalreporter.stats.values() for each in reports if hasattr(each, "node")]
    if lines := times_of_groups(report for report in found if isinstance(report, pytest.TestReport)):
        terminalreporter.section("the longest groups, in seconds")
        terminalreporter.write_line("\n".join(lines))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the secrets that a test hides in this process before the next test."""
    from icefloe.redaction import hidden

    monkeypatch.setattr(hidden, "_HIDDEN", hidden._Hidden())


@pytest.fixture(autouse=True)
def _no_store_was_met() -> None:
    """Forgets what a test learned of stores by their addresses: the system gives a port to more servers than one."""
    from icefloe.patience import silence_of

    silence_of.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    """Fails at the last test of a file that leaves the process other than it was.

    The files that share a process differ from run to run, so another file would fail, and now and then only.
    """
    from support.process_state import ProcessState

    before = ProcessState()
    yield
    left = ProcessState().left_since(before)
    assert not left, f"this file leaves behind: {', '.join(left)}; change it by monkeypatch, which takes it back"


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's own database, in the home of the tests."""
    from airflow.utils.db import initdb

    from icefloe.orchestration.tasks.plugin_parts import make_owner

    initdb()
    # As a scheduler does when it starts; none runs here.
    make_owner()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A table with one snapshot of ten rows, and ``events.yaml``."""
    from support.pipelines.workspace import Workspace

    made = Workspace.create(tmp_path)
    made.append(*range(10))
    made.pipeline()
    return made


@pytest.fixture(scope="session")
def spark_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkLab]:
    """The one Spark session of a run, and the catalog that Spark and PyIceberg share."""
    from support.spark.spark_lab import SparkLab

    lab = SparkLab.start(tmp_path_factory.mktemp("spark_lab"))
    yield lab
    lab.stop()
