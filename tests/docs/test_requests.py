import re
from pathlib import Path

import pytest

from benchmarks import requests_of_a_batch
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed


@pytest.mark.slow
@pytest.mark.parametrize("block", claimed(Kind.REQUESTS), ids=str)
def test_the_requests_of_a_batch_are_those_that_are_counted(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requests_of_a_batch, "FOLDER", tmp_path)
    assert requests_of_a_batch.main([]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert without_seconds(printed[: len(block.lines)]) == without_seconds(block.lines)


def without_seconds(lines: list[str]) -> list[list[str]]:
    return [re.sub(r" [\d.]+ *$", "", line).split() for line in lines]
