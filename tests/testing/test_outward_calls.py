"""Faults of outward calls strike whatever the reply is."""

import pytest

from icefloe.testing.processes import Fault, OutwardCalls


def missing() -> None:
    raise KeyError


def test_a_reply_that_is_an_exception_of_the_client_is_struck_too() -> None:
    call = OutwardCalls(Fault.LOST_REPLY, 1, lost_connection=OSError).watch(missing)
    with pytest.raises(KeyError):
        call()
    with pytest.raises(OSError):
        call()
