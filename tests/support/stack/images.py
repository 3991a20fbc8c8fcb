"""The replacement of each image of docker-compose.yaml: the same programs, installed or fetched."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.servers.jars import class_path, java_program
from support.servers.rest_catalog import JARS
from support.servers.versitygw import build_versitygw
from support.stack.dockerfile import load_stages
from support.stack.image import SYSTEM_PATH, Image
from support.stack.postgres_image import PostgresImage
from support.stack.service import Service
from support.stack.sink_images import KafkaImage, OpenSearchImage

__all__ = ["IMAGES"]

ROOT: Final = Path(__file__).resolve().parents[3]


@dataclass(kw_only=True)
class Icefloe(Image):
    """The repository's image: what the Dockerfile copies, with this environment's packages."""

    def prepare(self) -> None:
        """Copies the code."""
        java_program()
        load_stages(ROOT / "Dockerfile")["icefloe"].copy_files(ROOT, self.working_folder)
        spark = self.folder / "spark"
        spark.mkdir(mode=0o700)
        self.folders |= {"/opt/venv": Path(sys.prefix), "/opt/icefloe": self.working_folder, "/run/spark": spark}

    def environment(self) -> dict[str, str]:
        """The path with the packages' programs and Java."""
        path = f"{sys.prefix}/bin:{Path(java_program()).parent}:{SYSTEM_PATH}"
        java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if os.environ.get("JAVA_HOME") else {}
        return {"PATH": path, "HOME": str(self.folder), **java}

    @property
    def working_folder(self) -> Path:
        """The image's WORKDIR."""
        return self.folder / "icefloe"


@dataclass(kw_only=True)
class ObjectStore(Image):
    """versitygw, built by Go."""

    def prepare(self) -> None:
        """Builds it where it was not."""
        self._program = build_versitygw()

    def environment(self) -> dict[str, str]:
        """A path for the health check."""
        return {"PATH": SYSTEM_PATH}

    def command(self, service: Service) -> list[str]:
        """The image's entry point is the program."""
        return [str(self._program), *service.command]


@dataclass(kw_only=True)
class RestCatalog(Image):
    """Iceberg's REST catalog, from Maven Central."""

    def prepare(self) -> None:
        """Fetches its jars."""
        self._class_path = class_path(JARS)
        self.folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Its jars, and the one setting of the image that changes what the catalog answers."""
        return {"PATH": SYSTEM_PATH, "CLASSPATH": self._class_path, "CATALOG_JDBC_STRICT__MODE": "true"}

    def command(self, service: Service) -> list[str]:  # noqa: ARG002 - the image's own command takes nothing
        """The image's own command."""
        return [java_program(), "org.apache.iceberg.rest.RESTCatalogServer"]


IMAGES: Final[Mapping[str, type[Image]]] = {
    "apache/iceberg-rest-fixture": RestCatalog,
    "apache/kafka": KafkaImage,
    "icefloe": Icefloe,
    "icefloe-object-store": ObjectStore,
    "opensearchproject/opensearch": OpenSearchImage,
    "postgres": PostgresImage,
}
"""By the names of docker-compose.yaml."""
