"""A run that stumbles over the traces of a faster one, while the checkpoint may or may not answer."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from icefloe.batch.context.references import BatchFinished, BatchReference, ends_well_if_finished
from icefloe.errors import TerminalError, TransientError

GONE = TerminalError("there is no plan")


def reference(answer: bool | Exception) -> BatchReference:
    def is_over() -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return cast("Any", SimpleNamespace(is_over=is_over, batch_number=3))


def test_a_run_of_a_batch_that_is_committed_ends_well() -> None:
    with pytest.raises(BatchFinished), ends_well_if_finished(reference(answer=True)):
        raise GONE


def test_an_error_for_good_waits_for_the_checkpoint_because_a_faster_run_may_have_caused_it() -> None:
    silent = reference(TransientError("no answer"))
    with pytest.raises(TransientError, match="no answer") as raised, ends_well_if_finished(silent):
        raise GONE
    assert raised.value.__cause__ is GONE


@pytest.mark.parametrize("error", [GONE, TransientError("503"), KeyError("bug")])
def test_an_error_stays_if_the_checkpoint_says_that_the_batch_is_open_or_cannot_be_read(error: Exception) -> None:
    for answer in (False, TerminalError("damaged")):
        with pytest.raises(type(error)), ends_well_if_finished(reference(answer)):
            raise error
