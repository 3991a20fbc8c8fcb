"""The images of the servers that batches are delivered to, and what their entry points make of variables."""

import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from demo.servers import kafka, opensearch
from demo.servers.free_port import free_port
from demo.servers.jars import class_path, java_program
from support.stack.image import SYSTEM_PATH, Image
from support.stack.service import Service

__all__ = ["KafkaImage", "OpenSearchImage"]

_NO_SETTINGS: Final = ("KAFKA_HEAP_OPTS",)
_CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
"""The id that the image gives to a broker whose variables give none."""


@dataclass(kw_only=True)
class KafkaImage(Image):
    """A broker; each variable ``KAFKA_NODE_ID`` is the setting ``node.id``."""

    def prepare(self) -> None:
        """Fetches its jars."""
        self._class_path = class_path(kafka.JARS)

    def environment(self) -> dict[str, str]:
        """Its jars."""
        return {"PATH": SYSTEM_PATH, "CLASSPATH": self._class_path}

    def command(self, service: Service) -> list[str]:
        """The broker, with the memory that the service gives it."""
        memory = shlex.split(service.environment.get("KAFKA_HEAP_OPTS", ""))
        return [java_program(), *memory, "kafka.Kafka", str(self.folder / "server.properties")]

    def before_start(self, environment: Mapping[str, str]) -> None:
        """Writes the settings, and formats the folder of the data."""
        settings = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): value
            for name, value in environment.items()
            if name.startswith("KAFKA_") and name not in _NO_SETTINGS
        }
        configuration = self.folder / "server.properties"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        done = subprocess.run(
            [java_program(), "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", _CLUSTER_ID,
             "-c", configuration],
            env=self.environment(), capture_output=True, text=True, cwd=self.folder, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"the broker's folder could not be formatted:\n{done.stdout}{done.stderr}")


@dataclass(kw_only=True)
class OpenSearchImage(Image):
    """One node; each variable with a dot in its name is a setting."""

    def prepare(self) -> None:
        """Fetches its jars, and finds a Java that is recent enough."""
        self._class_path, self._java = class_path(opensearch.JARS), opensearch.find_recent_java()

    def environment(self) -> dict[str, str]:
        """A path for the health check."""
        return {"PATH": SYSTEM_PATH}

    def command(self, service: Service) -> list[str]:
        """The node, with the memory and the settings that the service gives it, on the image's own port."""
        memory = shlex.split(service.environment["OPENSEARCH_JAVA_OPTS"])
        settings = [f"{name}={value}" for name, value in service.environment.items() if "." in name]
        data = "path.data=/usr/share/opensearch/data"
        return [
            str(self._java), *memory, "-cp", self._class_path, str(opensearch.NODE), str(self.folder),
            "9200", str(free_port()), data, *settings,
        ]  # fmt: skip
