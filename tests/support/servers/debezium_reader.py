"""A topic as a sink connector of Kafka Connect reads it, with the classes of Kafka Connect and Debezium themselves."""

import json
import os
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from demo.servers.jars import Jar, class_path, java_program

__all__ = ["read_as_debezium"]

_PROGRAM: Final = Path(__file__).with_name("DebeziumReader.java")
_JARS: Final = (
    Jar(group="org.apache.kafka", name="connect-json", version="4.1.1"),
    Jar(group="org.apache.kafka", name="connect-transforms", version="4.1.1"),
    Jar(group="io.debezium", name="debezium-core", version="3.3.1.Final"),
    Jar(group="org.slf4j", name="slf4j-simple", version="2.0.17"),
)
"""Confluent's converter for Avro is not on Maven Central, so nobody reads Avro here but ourselves."""


def read_as_debezium(bootstrap_servers: str, topic: str, *, schemas: bool) -> list[tuple[Any, Any]]:
    """Key and row of each committed message, after ``ExtractNewRecordState``; the row "dropped" if it leaves none.

    Args:
        bootstrap_servers: of the cluster.
        topic: the topic.
        schemas: the converter's ``schemas.enable``.
    """
    done = subprocess.run(
        [java_program(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _PROGRAM, bootstrap_servers, topic,
         str(schemas).lower()],
        env={**os.environ, "CLASSPATH": class_path(_JARS)}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return [(json.loads(key), row if row == "dropped" else json.loads(row, parse_float=Decimal)) for key, row in lines]
