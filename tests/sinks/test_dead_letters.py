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


@pytest.mark.parametrize("edited", [b"{", b"7", b'{"id": "1"}', b'{"no": "letter"}', b"\xff", b"\xef\xbb\xbf{}"])
def test_a_line_that_somebody_edited_is_named_with_its_file(
    folder: DeadLetterFolder, tmp_path: Path, edited: bytes
) -> None:
    folder.put(0, 0, [LETTER])
    file = tmp_path / "dead/batch=0/part-00000.jsonl"
    file.write_bytes(file.read_bytes() + b"\r\n" + edited)
    with pytest.raises(TerminalError, match=r"^line 3 of file:.*/dead/batch=0/part-00000\.jsonl is no dead letter "):
        folder.counts()


def test_blank_lines_are_no_letters(folder: DeadLetterFolder, tmp_path: Path) -> None:
    folder.put(0, 0, [LETTER])
    file = tmp_path / "dead/batch=0/part-00000.jsonl"
    file.write_bytes(b" \r\n" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert list(folder.letters()) == [(0, LETTER)]
