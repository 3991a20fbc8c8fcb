"""The package of docs/developers/write_a_sink.md: its sink is opened by its entry point, and passes its own tests."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from icefloe.pipeline import settings
from icefloe.sinks.sink import open_sink
from support.pages.blocks import ROOT
from support.pages.claims import Kind, claimed
from support.sinks.installed import install_sinks
from support.tiers import extended

SINK, REGISTRATION, TESTS = claimed(Kind.SINK)
CASES = "arrive or twice or is_over or replay or taken_over or claim"
"""What is cheap, and shows that the code of the page works; a release runs all of them."""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder into which the package is installed."""
    for block in (SINK, TESTS):
        name, _, _ = block.text.removeprefix('"""').partition(":")
        (tmp_path / name).write_text(block.text)
    points = tomllib.loads(REGISTRATION.text)["project"]["entry-points"]["icefloe.sinks"]
    install_sinks(tmp_path, points, name="icefloe_sqlite")
    return tmp_path


def test_the_sink_is_opened_by_its_entry_point(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(package)
    written = {"type": "sqlite", "options": {"path": str(package / "flights.db")}}
    sink = open_sink(written, connection={}, open_store=lambda _: pytest.fail("it needs no store"))
    sink.check()
    assert sink.url == f"sqlite://{package}/flights.db"
    sink.close()


def test_the_page_names_the_keys_of_a_sink_that_may_be_edited() -> None:
    [line] = [
        line
        for line in (ROOT / "docs/developers/write_a_sink.md").read_text().splitlines()
        if line.startswith("`url`, ")
    ]
    assert set(re.findall(r"`(\w+)`", line)) == settings._EDITABLE


@pytest.mark.slow
@pytest.mark.parametrize("cases", [CASES, extended("test")])
def test_the_sink_passes_its_tests(package: Path, cases: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-k", cases, "--basetemp", str(package / "files"), "."]
    paths = {"PYTHONPATH": f"{package}{os.pathsep}{ROOT / 'plugins'}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=package,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
