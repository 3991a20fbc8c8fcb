import pytest

from support.pipelines.workspace import icefloe


@pytest.mark.parametrize("arguments", [("reset", "p", "--yes"), ("set-cursor", "p")])
def test_a_command_of_a_later_release_is_refused_by_one_sentence(arguments: tuple[str, ...]) -> None:
    done = icefloe(*arguments)
    assert done.code == 65
    assert done.sentence == f"icefloe {arguments[0]} is not built yet: a later release brings it"
