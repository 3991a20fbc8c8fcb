import copy
import pickle

import pytest

from icefloe.errors import IcefloeError, NotBuiltError, TerminalError, TransientError, UsageError


def test_facts_are_readable_as_attributes():
    error = TerminalError("table nyc.flights has no snapshot 7", table="nyc.flights", snapshot_id=7)
    assert (error.table, error.snapshot_id) == ("nyc.flights", 7)
    assert error.sentence == str(error) == "table nyc.flights has no snapshot 7"


def test_a_fact_that_is_not_there_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="TransientError carries no fact 'url'"):
        _ = TransientError("the store is away").url


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [(IcefloeError, 65), (TerminalError, 65), (NotBuiltError, 65), (TransientError, 75), (UsageError, 2)],
)
def test_every_family_has_its_exit_code(kind, exit_code):
    assert kind("a sentence").exit_code == exit_code


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_the_way_between_processes(duplicate):
    error = duplicate(NotBuiltError("net is not built yet", key="changes", line=4))
    assert type(error) is NotBuiltError
    assert error.sentence == "net is not built yet"
    assert error.facts == {"key": "changes", "line": 4}
