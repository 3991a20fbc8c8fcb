import re
from pathlib import Path

import pytest

from support.pages.blocks import Block, all_blocks
from support.pages.claims import CLAIMS, Claim, Kind, claim_of, claimed

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("block", all_blocks(), ids=str)
def test_a_test_takes_care_of_every_block(block: Block) -> None:
    kinds = "\n".join(f"  {kind.name}: {kind.value}" for kind in Kind)
    assert claim_of(block) is not None, (
        f"no test takes care of the code block at {block}, which begins with {block.lines[0]!r}. Let its beginning be "
        f"one that tests/support/pages/claims.py knows, or add a claim there. The kinds are\n{kinds}"
    )


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.begins)
def test_every_claim_covers_a_block(claim: Claim) -> None:
    assert [block for block in all_blocks() if claim_of(block) is claim], f"{claim} covers no block: remove it"


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_every_kind_has_tests_that_run_its_blocks(kind: Kind) -> None:
    assert claimed(kind)
    running = [
        path for path in TESTS.rglob("test_*.py") if re.search(rf"claimed\(Kind\.{kind.name}\)", path.read_text())
    ]
    assert running, f"no test runs the blocks of kind {kind.name}"
