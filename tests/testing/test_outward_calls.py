"""Faults of outward calls strike whatever the reply is."""

import pytest

from icefloe.testing.processes import Fault, OutwardCalls, ProcessEndedError


def missing() -> None:
    raise KeyError


@pytest.mark.parametrize(("fault", "error"), [(Fault.KILLED_AFTER, ProcessEndedError), (Fault.LOST_REPLY, OSError)])
def test_a_reply_that_is_an_exception_of_the_client_is_struck_too(fault: Fault, error: type[BaseException]) -> None:
    call = OutwardCalls(fault, 1, lost_connection=OSError).watch(missing)
    with pytest.raises(KeyError):
        call()
    with pytest.raises(error):
        call()
