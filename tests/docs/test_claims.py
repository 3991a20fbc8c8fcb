import re
from pathlib import Path

import pytest

from support.pages.blocks import all_blocks
from support.pages.claims import CLAIMS, Kind, claim_of, claimed

TESTS = Path(__file__).parents[1]


def test_a_test_takes_care_of_every_block() -> None:
    kinds = "\n".join(f"  {kind.name}: {kind.value}" for kind in Kind)
    unclaimed = [f"{block}, which begins with {block.lines[0]!r}" for block in all_blocks() if claim_of(block) is None]
    assert not unclaimed, (
        f"no test takes care of the code blocks at {unclaimed}. Let their beginnings be such as "
        f"tests/support/pages/claims.py knows, or add claims there. The kinds are\n{kinds}"
    )


def test_every_claim_covers_a_block() -> None:
    covering = [claim_of(block) for block in all_blocks()]
    idle = [claim for claim in CLAIMS if claim not in covering]
    assert not idle, f"{idle} cover no block: remove them"


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_every_kind_has_tests_that_run_its_blocks(kind: Kind) -> None:
    assert claimed(kind)
    running = [
        path for path in TESTS.rglob("test_*.py") if re.search(rf"claimed\(Kind\.{kind.name}\)", path.read_text())
    ]
    assert running, f"no test runs the blocks of kind {kind.name}"
