"""Iceberg's own REST catalog, the one behind its compatibility tests, on S3 or on local disk."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from demo.servers.free_port import free_port
from demo.servers.jars import Jar, class_path, java_program
from demo.servers.server_process import ServerProcess, answers
from support.servers.versitygw import REGION, Versitygw

__all__ = ["RestCatalog"]

ICEBERG: Final = "org.apache.iceberg"
ICEBERG_VERSION: Final = "1.11.0"
JETTY_VERSION: Final = "12.1.5"
HADOOP_VERSION: Final = "3.4.2"
JARS: Final = (
    Jar(group=ICEBERG, name="iceberg-open-api", version=ICEBERG_VERSION, classifiers=("test-fixtures",)),
    Jar(group=ICEBERG, name="iceberg-core", version=ICEBERG_VERSION, classifiers=("", "tests")),
    Jar(group=ICEBERG, name="iceberg-aws", version=ICEBERG_VERSION),
    Jar(group=ICEBERG, name="iceberg-aws-bundle", version=ICEBERG_VERSION),
    Jar(group="org.apache.hadoop", name="hadoop-client-api", version=HADOOP_VERSION),
    Jar(group="org.apache.hadoop", name="hadoop-client-runtime", version=HADOOP_VERSION),
    Jar(group="org.eclipse.jetty.ee10", name="jetty-ee10-servlet", version=JETTY_VERSION),
    Jar(group="org.eclipse.jetty.compression", name="jetty-compression-server", version=JETTY_VERSION),
    Jar(group="org.eclipse.jetty.compression", name="jetty-compression-gzip", version=JETTY_VERSION),
    Jar(group="org.xerial", name="sqlite-jdbc", version="3.50.3.0"),
    Jar(group="org.slf4j", name="slf4j-simple", version="2.0.17"),
)


@dataclass(kw_only=True)
class RestCatalog:
    """The server with its rows in SQLite; a context manager. It listens on all interfaces: it knows no other way.

    Attributes:
        warehouse: a URL; its bucket exists.
        store: of an s3:// warehouse.
    """

    folder: Path
    warehouse: str
    store: Versitygw | None = None
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Fetches its jars if need be, starts it and waits until it answers."""
        libraries = class_path(JARS)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = ServerProcess("rest_catalog", self.folder)
        self.process.start(
            [
                java_program(),
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "org.apache.iceberg.rest.RESTCatalogServer",
            ],
            environ={**os.environ, "CLASSPATH": libraries, **_settings(self._properties())},
            is_ready=answers(f"{self.uri}/v1/config", 200),
            seconds=60,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.process.stop()

    @property
    def uri(self) -> str:
        """The properties for clients."""
        return f"http://127.0.0.1:{self.port}"

    def _properties(self) -> dict[str, str]:
        properties = {
            "rest.port": str(self.port),
            "warehouse": self.warehouse,
            "uri": f"jdbc:sqlite:file:{self.folder}/catalog.db",
            "catalog.name": "lake",
        }
        if self.store is None:
            return properties
        return properties | {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.store.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": self.store.access_key,
            "s3.secret-access-key": self.store.secret_key,
            "client.region": REGION,
        }


def _settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The environment variables by which the server takes its properties."""
    names = {key: key.replace("-", "__").replace(".", "_").upper() for key in properties}
    return {f"CATALOG_{names[key]}": value for key, value in properties.items()}
