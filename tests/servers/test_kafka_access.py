"""Ways in to a broker that asks for them, and the least rights of docs/sinks/kafka.md."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.patience import PATIENCE_VARIABLE
from icefloe.sinks.kafka.kafka_sink import KafkaSink, open_kafka_sink
from icefloe.storage.location import open_store
from servers.conftest import or_skip
from servers.kafka_place import NUMBERS, deliver_all
from sinks.kafka.staged_changes import CHANGES, FLIGHTS, inserts
from support.servers.private_authority import PrivateAuthority
from support.servers.secured_kafka import CLIENT, USER, Right, SecuredKafka

pytestmark = [pytest.mark.servers, pytest.mark.extended]

WAYS = ("PLAIN", "SCRAM", "TLS and SCRAM", "client certificate")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    folder = tmp_path_factory.mktemp("secured")
    with or_skip(SecuredKafka(folder=folder / "kafka", authority=PrivateAuthority.create(folder / "ca"))) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _secrets_stay_secret(
    broker: SecuredKafka, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """No line of any log has the password, those of librdkafka included."""
    caplog.set_level(logging.DEBUG)
    yield
    assert broker.password not in caplog.text + "".join(capfd.readouterr())


def creating(topic: str) -> list[Right]:
    """The rights that topics take until they are there."""
    return [Right(operation="CREATE", resource="TOPIC", name=name) for name in (topic, f"{topic}.icefloe")]


def delivering(topic: str) -> list[Right]:
    """The other rights that the page lists."""
    return [
        *(
            Right(operation=operation, resource="TOPIC", name=f"{topic}{end}")
            for operation in ("WRITE", "READ")
            for end in ("", ".icefloe")
        ),
        Right(operation="DESCRIBE_CONFIGS", resource="TOPIC", name=topic),
        Right(operation="WRITE", resource="TRANSACTIONAL_ID", name=f"{topic}.icefloe-", is_prefix=True),
    ]


def sink_of(topic: str, extra: dict[str, Any]) -> KafkaSink:
    options = {"topic": topic, "partitions": 2, "transaction_seconds": 10}
    return open_kafka_sink(options, connection={"extra": extra}, open_store=open_store)


def live(sink: KafkaSink) -> int:
    """A check, a load, changes, a load that begins again, a take-over; returns the changes that are read back."""
    sink.check()
    sink.claim(FLIGHTS)
    deliver_all(sink, inserts(0, range(3)).load())
    deliver_all(sink, CHANGES)
    deliver_all(sink, inserts(2, range(5)).load())
    sink.claim(FLIGHTS, only_looks=True)
    sink.claim(FLIGHTS, takes_over=True)
    return sum(rows.num_rows for rows in sink.read_back(CHANGES.schema))


@pytest.mark.parametrize("way", WAYS)
def test_the_least_rights_are_enough_for_every_way_in(broker: SecuredKafka, way: str) -> None:
    topic, principal = f"way-{next(NUMBERS)}", f"User:CN={CLIENT}" if "certificate" in way else f"User:{USER}"
    broker.grant(*creating(topic), *delivering(topic), principal=principal)
    sink = sink_of(topic, broker.ways_in()[way])
    sink.check()
    assert topic not in broker.admin.list_topics().topics, "a check makes nothing"
    sink.claim(FLIGHTS)
    broker.revoke(*creating(topic), principal=principal)
    assert live(sink) == 5
    sink.close()


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        *((number, f"Create on topic {{topic}}{end}") for number, end in enumerate(("", ".icefloe"))),
        (2, "Write on topic {topic} and {topic}.icefloe"),
        (3, "Write on topic {topic}.icefloe"),
        (4, "Read on topic {topic}"),
        (5, "Read on topic {topic}.icefloe"),
        (7, "Write on the transactional ids that begin with {topic}.icefloe-"),
    ],
)
def test_a_right_that_is_missing_is_named(broker: SecuredKafka, missing: int, named: str) -> None:
    topic = f"right-{next(NUMBERS)}"
    rights = [*creating(topic), *delivering(topic)]
    broker.grant(*(right for number, right in enumerate(rights) if number != missing))
    sink = sink_of(topic, broker.ways_in()["SCRAM"])
    with pytest.raises(TerminalError) as refused:
        live(sink)
    sink.close()
    assert f": grant it {named.format(topic=topic)}; docs/sinks/kafka.md lists all rights" in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({"sasl.password": "wrong"}, TerminalError, "correct user, password"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, TerminalError, "correct user, password"),
        ({"way": "TLS and SCRAM", "ssl.ca.location": None}, TransientError, "certificate"),
        ({"way": "client certificate", "ssl.certificate.location": None, "ssl.key.location": None}, TransientError,
         "certificate"),
        ({"security.protocol": "PLAINTEXT"}, TransientError, "security.protocol"),
    ],
)  # fmt: skip
def test_a_way_in_that_is_wrong_is_named(
    broker: SecuredKafka, settings: dict[str, Any], kind: type[IcefloeError], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is waited out.
    monkeypatch.setenv(PATIENCE_VARIABLE, "6")
    settings = dict(settings)
    extra = {**broker.ways_in()[settings.pop("way", "SCRAM")], **settings}
    given = {key: value for key, value in extra.items() if value is not None}
    sink = sink_of("nobody", given)
    with pytest.raises(kind, match=said) as refused:
        sink.check()
    sink.close()
    assert broker.password not in repr(refused.getrepr(chain=True))
