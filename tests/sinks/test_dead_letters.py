"""The folder of dead letters."""

from dataclasses import replace
from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.storage.location import open_store

OURS = Origin(owner="a", pipeline="flights", table="nyc.flights")
THEIRS = replace(OURS, owner="b", pipeline="others")
FLIGHTS = ("flights", "a")
LETTER = DeadLetter(id="1", version=7, operation="delete", document=None, reason="too long")


@pytest.fixture
def folder(tmp_path: Path) -> DeadLetterFolder:
    return DeadLetterFolder(open_store(f"file://{tmp_path}/dead"), limit=10)


def test_a_folder_belongs_to_one_pipeline(folder: DeadLetterFolder) -> None:
    folder.claim(OURS, *FLIGHTS)
    folder.put(0, 0, [LETTER])
    folder.claim(OURS, *FLIGHTS)
    with pytest.raises(TerminalError, match=r"of pipeline others; .* a sink\.dead_letters\.path of its own$"):
        folder.claim(THEIRS, *FLIGHTS)
    assert list(folder.letters(0)) == [(0, LETTER)]


def test_a_folder_is_taken_over_with_its_sink(folder: DeadLetterFolder) -> None:
    folder.claim(OURS, *FLIGHTS)
    folder.claim(THEIRS, *FLIGHTS, takes_over=True)
    folder.claim(THEIRS, *FLIGHTS)
    with pytest.raises(TerminalError, match="not to checkpoint a for index flights"):
        folder.claim(OURS, *FLIGHTS)
    with pytest.raises(TerminalError, match="with the checkpoint b for index flights of cluster a"):
        folder.claim(THEIRS, "others", "a")
    folder.claim(THEIRS, "others", "a", takes_over=True)
    folder.claim(THEIRS, "others", "a", only_looks=True)
    assert folder.counts() == {}


def test_a_folder_stays_with_its_sink_while_the_cluster_does_not_say_its_id(folder: DeadLetterFolder) -> None:
    folder.claim(OURS, "flights", None)
    folder.claim(OURS, "flights", "a")
    folder.claim(OURS, "flights", None)
    with pytest.raises(TerminalError, match="for index others"):
        folder.claim(OURS, "others", None)
