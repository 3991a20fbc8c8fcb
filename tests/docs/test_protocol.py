"""docs/developers/protocol.md shows the table of the protocol."""

from pathlib import Path

import pytest

from icefloe.checkpoint.protocol import TRANSITIONS, BatchState
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed

PAGE = Path(__file__).parents[2] / "docs" / "developers" / "protocol.md"


def states() -> str:
    rows = [("state", "its changes", "the next document", "leads to"), ("---",) * 4]
    for state, acts in TRANSITIONS.items():
        told = (state.name, str(state))
        for act, after in acts.items():
            rows.append((*told, f"`{act}`", after.name))
            told = ("", "")
        if not acts:
            rows.append((*told, "-", "-"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def picture() -> str:
    arrows = [
        f"    {state.name} --> {after.name}: {act.name.lower().replace('_', ' ')}"
        for state, acts in TRANSITIONS.items()
        for act, after in acts.items()
    ]
    return "\n".join(["stateDiagram-v2", *arrows])


def test_the_page_has_the_table() -> None:
    assert states() in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("block", claimed(Kind.PROTOCOL), ids=str)
def test_the_picture_is_that_of_the_table(block: Block) -> None:
    assert block.text.rstrip() == picture()


def test_each_state_but_the_first_is_reached_and_each_but_the_last_is_left() -> None:
    assert {after for acts in TRANSITIONS.values() for after in acts.values()} == {*BatchState} - {BatchState.FREE}
    assert {state for state in BatchState if not TRANSITIONS[state]} == {BatchState.ENDED}
