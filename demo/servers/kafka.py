"""One Kafka broker that is its own controller, on 127.0.0.1, with its jars from Maven Central."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from demo.servers.free_port import free_port
from demo.servers.jars import Jar, class_path, java_program
from demo.servers.server_process import ServerDiedError, ServerProcess

__all__ = ["JARS", "Kafka"]

_VERSION: Final = "4.1.1"
JARS: Final = (
    Jar(group="org.apache.kafka", name="kafka_2.13", version=_VERSION),
    Jar(group="org.apache.kafka", name="kafka-tools", version=_VERSION),
    Jar(group="org.slf4j", name="slf4j-simple", version="2.0.17"),
)
_CLUSTER_ID: Final = "aWNlZmxvZS10ZXN0LWthZg"
_FRUGAL: Final = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A broker of a test lives for a minute: the second compiler would cost more than it saves."""


@dataclass(kw_only=True)
class Kafka:
    """The broker; a context manager.

    Attributes:
        folder: for its configuration, log and data.
        settings: of the broker, in addition to ours or instead of them.
    """

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Fetches its jars if need be, formats its folder, starts it and waits until it answers."""
        libraries = class_path(JARS)
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "server.properties"
        configuration.write_text(
            "".join(f"{key}={value}\n" for key, value in (self._settings() | self.settings).items())
        )
        done = subprocess.run(
            [java_program(), *_FRUGAL, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", configuration],
            env={**os.environ, "CLASSPATH": libraries}, capture_output=True, text=True, cwd=self.folder, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise ServerDiedError(f"the folder of kafka could not be formatted:\n{done.stdout}{done.stderr}")
        self.process = ServerProcess("kafka", self.folder)
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it at once: nobody needs its data any more."""
        self.process.kill()

    def restart(self) -> None:
        """Kills the broker, and starts it again on its data."""
        self.process.kill()
        self._start()

    def _start(self) -> None:
        earlier = self.process.log.stat().st_size if self.process.log.exists() else 0
        self.process.start(
            [java_program(), *_FRUGAL, "kafka.Kafka", self.folder / "server.properties"],
            environ={**os.environ, "CLASSPATH": class_path(JARS)},
            is_ready=lambda: b"Kafka Server started" in self.process.log.read_bytes()[earlier:],
            seconds=90,
        )

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": "3",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
