"""DynamoDB Local, Amazon's own, in memory: a JVM with its jars from Maven Central."""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from demo.servers.free_port import free_port
from demo.servers.jars import Jar, class_path, java_program
from demo.servers.server_process import ServerProcess, answers
from icefloe.storage.dynamodb_table import table_client
from icefloe.storage.options import DynamodbAccess

__all__ = ["Dynamodb"]

JARS: Final = (Jar(group="com.amazonaws", name="DynamoDBLocal", version="2.6.1"),)
TABLE: Final = "icefloe"


@dataclass(kw_only=True)
class Dynamodb:
    """The server, with the table ``icefloe``; a context manager."""

    folder: Path
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Fetches its jars if need be, starts it, and creates the table once it answers."""
        libraries = class_path(JARS)
        native = os.pathsep.join({str(Path(jar).parent) for jar in libraries.split(os.pathsep) if jar.endswith(".so")})
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = ServerProcess("dynamodb", self.folder)
        self.process.start(
            [java_program(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.library.path={native}",
             "com.amazonaws.services.dynamodbv2.local.main.ServerRunner", "-inMemory", "-sharedDb", "-port",
             str(self.port), "-disableTelemetry"],
            environ={**os.environ, "CLASSPATH": libraries},
            is_ready=answers(f"{self.url}/", 400),
            seconds=90,
        )  # fmt: skip
        self.create_table()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it at once: nobody needs its data any more."""
        self.process.kill()

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def access(self) -> dict[str, str]:
        """The options that open the table."""
        return {
            "dynamodb_endpoint": self.url, "dynamodb_region": "us-east-1", "dynamodb_allow_http": "true",
            "dynamodb_access_key_id": "testing", "dynamodb_secret_access_key": "testing",
        }  # fmt: skip

    @property
    def options(self) -> dict[str, str]:
        """The options of a store that the table coordinates."""
        return {"coordination": f"dynamodb://{TABLE}", **self.access}

    def create_table(self, table: str = TABLE, **others: Any) -> None:
        """Creates a table by the command that icefloe prints if the table is missing.

        Args:
            table: its name.
            others: parameters in place of the command's own.
        """
        access = DynamodbAccess.of(f"dynamodb://{table}", self.access, {})
        client = table_client(access, tries=1, silence_seconds=60.0)
        client.create_table(**parameters_of(access.creation_command) | others)
        client.get_waiter("table_exists").wait(TableName=table)


def parameters_of(command: str) -> dict[str, Any]:
    """The parameters of the request that a command of AWS's command line sends.

    >>> parameters_of("aws dynamodb x --table-name t --key-schema AttributeName=a,KeyType=HASH --region nowhere")
    {'TableName': 't', 'KeySchema': [{'AttributeName': 'a', 'KeyType': 'HASH'}]}
    """
    found: dict[str, Any] = {}
    _, *options = shlex.join(shlex.split(command)).split(" --")
    for option in options:
        name, *values = option.split()
        parsed = [dict(pair.split("=") for pair in value.split(",")) if "=" in value else value for value in values]
        key = name.title().replace("-", "")
        found[key] = parsed if isinstance(parsed[0], dict) else parsed[0]
    return {key: value for key, value in found.items() if key not in ("Region", "EndpointUrl")}
