"""An abandon and a run of the same batch, each of them stopped while the other one goes on: what is said of it.

That nothing is lost is tried at every document by tests/faults/test_stopped_operators.py.
"""

import pytest

from icefloe.batch.upkeep.abandoned_batch import AbandonablePipeline
from icefloe.checkpoint.log import Checkpoint
from support.pipelines.interrupted import Paused
from support.pipelines.operated import Operated
from support.tiers import extended

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("step", [9, extended(1)])
def test_a_run_that_was_stopped_anywhere_while_its_batch_was_abandoned_delivers_nothing_of_it(
    operated: Operated, step: int
) -> None:
    outcomes, said_so = set(), set()
    for place in range(1, 1000, step):
        operated.append([1000 + place])
        with Paused(operated.command, "run", place=place) as late:
            abandoned = operated.abandon("--yes", "--json")
            others = operated.command("run", "--json")
        assert late.error is None, late.where
        if not late.is_reached:
            break
        assert late.answer.code == 0, (late.where, late.answer.err)
        assert others.code == 0, (late.where, others.err)
        assert abandoned.code == 0, abandoned.err
        outcomes.add(abandoned.document["outcome"])
        said_so.add("was abandoned meanwhile: run again" in late.answer.out)
        operated.require_consistent()
    assert "abandoned" in outcomes
    assert True in said_so
    assert step > 1 or "delivered" in outcomes, "no place is between manifest and commit record"


@pytest.mark.parametrize("step", [2, extended(1)])
def test_an_abandon_that_was_stopped_anywhere_while_a_run_went_on_is_complete_or_says_who_was_first(
    operated: Operated, step: int
) -> None:
    said = set()
    for place in range(1, 1000, step):
        operated.update([place % 20], value=float(place))
        operated.open()
        with Paused(lambda: operated.abandon("--yes", "--json"), place=place) as late:
            run = operated.command("run", "--json")
        assert late.error is None, late.where
        assert run.code == 0, (late.where, run.err)
        if not late.is_reached:
            break
        assert late.answer.code in (0, 75), (late.where, late.answer.err)
        said.add(late.answer.document["outcome"] if late.answer.code == 0 else late.answer.sentence)
        operated.require_consistent()
    assert "abandoned" in said
    assert any("readers see its changes" in each for each in said if each)


def test_an_abandon_is_to_be_repeated_if_a_run_died_between_manifest_and_record_since_the_look(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    operated.update([1], value=7.0)
    operated.open()
    look = AbandonablePipeline.find

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def looked(place: AbandonablePipeline) -> object:
        found = look(place)
        with monkeypatch.context() as patched:
            patched.setattr(Checkpoint, "create_commit", killed)
            assert operated.command("run").code == 130
        return found

    with monkeypatch.context() as patched:
        patched.setattr(AbandonablePipeline, "find", looked)
        overtaken = operated.abandon()
    assert (overtaken.code, "readers see its changes" in overtaken.sentence) == (75, True)
    repeated = operated.abandon("--yes", "--json")
    assert (repeated.code, repeated.document["outcome"]) == (0, "delivered")
    operated.require_consistent()
