import pytest

from icefloe.batch.context.job_error import load_job_error, save_job_error
from icefloe.batch.context.references import BatchReference
from icefloe.batch.credentials import Credentials
from icefloe.batch.run_settings import RunSettings
from icefloe.errors import TerminalError, TransientError, UsageError

REFERENCE = BatchReference(
    plan_url="memory://job-errors/7/plan.json",
    credentials=Credentials(),
    settings=RunSettings(checkpoint_url="memory://job-errors/checkpoint"),
)


@pytest.mark.parametrize(
    ("kind", "family"), [(TerminalError, "terminal"), (UsageError, "terminal"), (TransientError, "transient")]
)
def test_an_error_is_read_back_as_one_of_its_family(kind: type[TerminalError], family: str) -> None:
    save_job_error(REFERENCE, "shuffle_read", family, kind("it broke", snapshot_id=5, store=object()))
    document = load_job_error(REFERENCE, "shuffle_read", family)
    assert document is not None
    assert document.family == family
    assert document.facts == {"snapshot_id": 5}
    error = document.as_error()
    assert isinstance(error, TerminalError) == (family == "terminal")
    assert (str(error), error.snapshot_id) == ("it broke", 5)


def test_an_attempt_that_died_without_a_word_left_none() -> None:
    assert load_job_error(REFERENCE, "shuffle_write", "another") is None
