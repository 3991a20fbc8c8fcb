"""A small HDFS: Hadoop's own cluster for tests, with its jars from Maven Central."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from demo.servers.free_port import free_port
from demo.servers.jars import Jar, class_path, java_program
from demo.servers.server_process import ServerProcess

__all__ = ["Hdfs"]

_HADOOP: Final = "3.4.2"
_JARS: Final = (
    Jar(group="org.apache.hadoop", name="hadoop-hdfs", version=_HADOOP, classifiers=("", "tests")),
    Jar(group="org.apache.hadoop", name="hadoop-common", version=_HADOOP, classifiers=("", "tests")),
    Jar(group="org.apache.hadoop", name="hadoop-hdfs-client", version=_HADOOP),
    Jar(group="org.mockito", name="mockito-core", version="4.11.0"),
    Jar(group="junit", name="junit", version="4.13.2"),
    Jar(group="org.slf4j", name="slf4j-simple", version="1.7.36"),
)
_FRUGAL: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_OPEN: Final = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")
"""WebHDFS needs a class that newer Java keeps closed."""


@dataclass(kw_only=True)
class Hdfs:
    """The cluster; a context manager."""

    folder: Path
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Fetches its jars if need be, starts it and waits until it takes files."""
        libraries = class_path(_JARS)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = ServerProcess("hdfs", self.folder)
        program = Path(__file__).with_name("HdfsServer.java")
        self.process.start(
            [java_program(), *_FRUGAL, *_OPEN, "-cp", libraries, program, self.folder / "data", str(self.port)],
            environ=os.environ,
            is_ready=(self.folder / "data" / "ready").exists,
            seconds=120,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    @property
    def url(self) -> str:
        return f"webhdfs://localhost:{self.port}"
