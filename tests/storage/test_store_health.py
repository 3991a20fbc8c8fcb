import pytest

from icefloe.storage.clients import StoreHealth, health_of_store


def test_a_silence_begins_and_ends_when_the_store_answers_or_after_a_while() -> None:
    silence = StoreHealth()
    assert not silence.is_recent
    seen = []
    for change in (lambda: silence.begin(60), silence.end, lambda: silence.begin(0)):
        change()
        seen.append(silence.is_recent)
    assert seen == [True, False, False]


def test_a_store_that_is_opened_twice_has_one_silence() -> None:
    assert health_of_store("s3://lake", ("http://a",)) is health_of_store("s3://lake", ("http://a",))
    assert health_of_store("s3://lake", ("http://a",)) is not health_of_store("s3://lake", ("http://b",))


@pytest.mark.parametrize("test", ["one test", "another test"])
def test_a_server_at_the_port_of_an_earlier_test_is_a_new_one(test: str) -> None:
    silence = health_of_store("s3://lake", ("https://127.0.0.1:4995",))
    assert not silence.was_met, test
    silence.was_met = True
