"""Changes that are too large for the topic go to a folder of dead letters, in every try the same ones."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.verify.delivery_findings import dead_letters_note
from icefloe.errors import TerminalError
from icefloe.sinks.dead_letters import TooManyDeadLettersError
from servers.kafka_place import KafkaPlace, deliver_all
from sinks.kafka.staged_changes import FLIGHTS, Staged
from support.servers.kafka import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.extended]

LARGE = "x" * 3000
ROWS = [
    ("INSERT", 1, "a"), ("INSERT", 2, LARGE), ("UPDATE_BEFORE", 3, LARGE), ("UPDATE_AFTER", 3, "c"),
    ("DELETE", 4, LARGE), ("INSERT", 5, "e"),
]  # fmt: skip


@pytest.fixture
def place(kafka: Kafka, tmp_path: Path) -> Iterator[KafkaPlace]:
    letters = {"path": (tmp_path / "dead").as_uri(), "limit": 3}
    place = KafkaPlace(
        kafka=kafka,
        options={"partitions": 1, "topic_settings": {"max.message.bytes": 2000}, "dead_letters": letters},
    )
    place.sink().claim(FLIGHTS)
    yield place
    place.close()


def letters(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("dead/batch=0/*.jsonl"))]


def test_changes_that_are_too_large_are_kept_and_the_others_sent(place: KafkaPlace, tmp_path: Path) -> None:
    [delivery] = deliver_all(place.sink(), Staged(number=0, parts=[ROWS]))
    assert (delivery.rows, delivery.documents, delivery.dead_letters) == (6, 2, 3)
    # The delete still takes its row out of a compacted topic.
    assert [(each.key, each.value and json.loads(each.value)["after"]) for each in place.messages()] == [
        (b'{"id":1}', {"id": 1, "carrier": "a"}), (b'{"id":4}', None), (b'{"id":5}', {"id": 5, "carrier": "e"})
    ]  # fmt: skip
    kept = letters(tmp_path)
    assert [(each["id"], each["version"], each["document"]["op"]) for each in kept] == [
        ('{"id":2}', 2, "c"), ('{"id":3}', 4, "u"), ('{"id":4}', 5, "d")
    ]  # fmt: skip
    assert kept[0]["document"]["after"]["carrier"] == LARGE
    assert kept[0]["reason"].startswith("a change of 3")
    assert place.sink().dead_letters() == {0: 3}
    [note] = dead_letters_note(place.sink())
    assert note.endswith("raise max.message.bytes of the topic, then `icefloe reset NAME` loads it again")
    with pytest.raises(TerminalError, match="dead letters of batch 0 cannot be sent in their order to topic"):
        place.sink().replay_dead_letters(0)
    [again] = deliver_all(place.sink(), Staged(number=0, parts=[ROWS]))
    assert (again.repeated, again.dead_letters) == (2, 3)


def test_a_try_that_goes_on_in_the_middle_counts_the_letters_before_it(place: KafkaPlace, tmp_path: Path) -> None:
    staged = Staged(number=0, parts=[ROWS])
    begun = place.sink().begin(staged.batch)
    [part] = staged.staged
    [half] = Staged(number=0, parts=[ROWS[:5]]).staged
    place.sink(transaction_rows=1).deliver(staged.batch, begun, replace(half, number=part.number))
    delivery = place.sink().deliver(staged.batch, begun, part)
    assert (delivery.documents, delivery.repeated, delivery.dead_letters) == (2, 1, 3)
    assert len(letters(tmp_path)) == 3


def test_more_letters_than_the_limit_are_an_error(place: KafkaPlace) -> None:
    parts = [[("INSERT", number, LARGE), ("INSERT", 10 + number, LARGE)] for number in range(2)]
    with pytest.raises(
        TooManyDeadLettersError, match=r"4 documents of batch 0 were refused for good, and sink\.dead.*is too large for"
    ):
        deliver_all(place.sink(), Staged(number=0, parts=parts))
    # Nothing else was delivered, so the limit can be raised, or the topic's.
    assert place.messages() == []


def test_letters_of_changes_that_the_topic_takes_by_now_leave_the_folder(place: KafkaPlace, tmp_path: Path) -> None:
    few = {"path": (tmp_path / "dead").as_uri(), "limit": 2}
    staged = Staged(number=0, parts=[ROWS])
    with pytest.raises(TooManyDeadLettersError, match=r"raise the limit and run again, or raise max\.message\.bytes"):
        deliver_all(place.sink(dead_letters=few), staged)
    place.take_messages_of(2**20)
    [delivery] = deliver_all(place.sink(dead_letters=few), staged)
    assert (delivery.documents, delivery.repeated, delivery.dead_letters) == (5, 0, 0)
    assert letters(tmp_path) == []
    assert [message.key for message in place.messages()] == [
        b'{"id":1}', b'{"id":2}', b'{"id":3}', b'{"id":4}', b'{"id":4}', b'{"id":5}'
    ]  # fmt: skip


def test_a_tombstone_that_is_too_large_itself_is_only_kept(place: KafkaPlace, tmp_path: Path) -> None:
    staged = Staged(number=0, parts=[[("DELETE", 1, LARGE)]], options={"identity": ("carrier",)})
    [delivery] = deliver_all(place.sink(), staged)
    assert (delivery.documents, delivery.dead_letters, len(letters(tmp_path))) == (0, 1, 1)
    assert place.messages() == []


def test_letters_of_another_topic_are_neither_counted_nor_mixed_with_those_of_the_first(place: KafkaPlace) -> None:
    deliver_all(place.sink(), Staged(number=0, parts=[ROWS]))
    with pytest.raises(TerminalError, match=f"keeps dead letters of topic {place.topic} of cluster .*not of topic"):
        place.sink(topic=f"{place.topic}-copy").claim(FLIGHTS)
    with pytest.raises(TerminalError):
        place.sink(topic=f"{place.topic}-copy").dead_letters()
    assert place.sink().dead_letters() == {0: 3}
    [note] = dead_letters_note(place.sink())
    assert note.endswith("raise max.message.bytes of the topic, then `icefloe reset NAME` loads it again")
    # Other addresses of the same brokers are no other sink.
    servers = place.kafka.bootstrap_servers
    place.sink(bootstrap_servers=f"{servers},{servers}").claim(FLIGHTS)
