from types import SimpleNamespace
from typing import Any

from side_by_side import times_of_groups


def report(process: str, node_id: str, start: float, stop: float) -> Any:
    node = SimpleNamespace(gateway=SimpleNamespace(id=process))
    return SimpleNamespace(nodeid=node_id, node=node, start=start, stop=stop)


def test_groups_are_shown_from_their_first_test_to_their_last_the_longest_first() -> None:
    reports = [
        report("gw0", "tests/cli/test_run.py::test_a", 100.0, 101.0),
        report("gw1", "tests/servers/test_kafka_kills.py::test_b", 110.0, 150.0),
        report("gw1", "tests/servers/test_kafka_sink.py::test_c", 150.0, 400.0),
    ]
    assert times_of_groups(reports) == [
        "gw1     10 to    300  tests/servers, Kafka",
        "gw0      0 to      1  tests/cli/test_run.py",
    ]
    assert times_of_groups(reports, most=1) == times_of_groups(reports)[:1]
    assert times_of_groups([]) == []
