"""The configuration of a machine: its folder, its address, its certificates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import yaml
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from icefloe.documents import Document
from icefloe.errors import TerminalError, one_line
from icefloe.node.node_folder import NodeFolder
from icefloe.units import parse_seconds

__all__ = ["load_node_config"]

CONFIG_VARIABLE: Final = "ICEFLOE_NODE_CONFIG"
"""The environment variable that names the file, in every process that runs tasks."""
DEFAULT_PORT: Final = 4995
_PEM: Final = "-----BEGIN"
_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z][0-9A-Za-z.-]*)"
_LISTEN: Final = re.compile(_HOST)
_ADDRESS: Final = re.compile(rf"{_HOST}:[0-9]{{1,5}}")
_LAST_PORT: Final = 65_535
_LONGEST: Final = 300
_UNREADABLE: Final = (
    ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError, yaml.YAMLError,
)  # fmt: skip
"""What PyYAML raises, too, for a tagged value that is none, such as a date, for long numbers and for deep lists."""

Pem: TypeAlias = tuple[bytes, bytes, bytes]
"""Certificate, key and authority."""
Seconds = Annotated[float, BeforeValidator(lambda value: parse_seconds(value))]


@dataclass(frozen=True, kw_only=True)
class NodeConfig(Document):
    """One machine's part in the shuffle."""

    version: Literal[1]
    address: str | None = None  # host and port for readers; None: nothing is kept here
    folder: Path | None = None
    # Address of the interface that the server listens on.
    listen: str = "0.0.0.0"  # noqa: S104 - readers are on other machines; without a certificate nobody gets in
    certificate: Path | None = None  # of this machine, PEM, for both sides of a connection
    key: Path | None = None
    authority: Path | None = None  # signs the certificates of all members
    plain: bool = False  # no encryption: everybody who reaches the port can read rows
    requests_at_once: int = 32  # others wait and ask again
    keep: Seconds = 7 * 86_400.0  # seconds until the server deletes a file that no batch has deleted
    storages: tuple[str, ...] = ()  # URLs; files of a batch that one of them has open do not expire
    status: str | None = None  # host and port to answer /metrics and /health on, for everybody
    statsd: str | None = None  # host and port that counts are sent to

    def __post_init__(self) -> None:
        if (self.address is None) != (self.folder is None):
            raise ValueError("address and folder belong together: write both, or none if this machine keeps nothing")
        if self.address is not None and not _ADDRESS.fullmatch(self.address):
            raise ValueError(f"address must be a host and a port such as worker-1:4995, not {self.address!r}")
        if not 0 < self.port <= _LAST_PORT:
            raise ValueError(f"the port of address must be from 1 to {_LAST_PORT}, not {self.port}")
        for key, value in (("status", self.status), ("statsd", self.statsd)):
            if value is not None and not (_ADDRESS.fullmatch(value) and int(value.rpartition(":")[2]) <= _LAST_PORT):
                raise ValueError(f"{key} must be a host and a port such as 127.0.0.1:4996, not {value!r}")
        if not _LISTEN.fullmatch(self.listen):
            raise ValueError(f"listen must be a host or an address such as 0.0.0.0 or [::], not {self.listen!r}")
        if self.folder is not None and not self.folder.is_absolute():
            raise ValueError(f"folder must be an absolute path, not '{self.folder}'")
        files = (self.certificate, self.key, self.authority)
        if self.plain and any(files):
            raise ValueError("plain: true uses no certificate: remove plain, or the certificates")
        if not self.plain and not all(files):
            raise ValueError(
                "certificate, key and authority are missing: write all three, or plain: true if the network is trusted"
            )
        if self.requests_at_once < 1 or self.keep <= 0:
            raise ValueError("requests_at_once and keep must be above 0")

    @property
    def port(self) -> int:
        return int((self.address or "").rpartition(":")[2] or DEFAULT_PORT)

    @property
    def kept_folder(self) -> NodeFolder:
        """The folder of this machine's map outputs."""
        if self.folder is None:
            raise TerminalError(
                "this configuration has neither folder nor address, so there is nothing to serve: write both, or start "
                "no node on this machine"
            )
        return NodeFolder(self.folder)

    @cached_property
    def scheme(self) -> str:
        return "grpc+tcp" if self.plain else "grpc+tls"

    def pem(self) -> Pem:
        """Certificate, key and authority as they are now; three times nothing if ``plain``."""
        if self.certificate is None or self.key is None or self.authority is None:
            return b"", b"", b""
        try:
            return self.certificate.read_bytes(), self.key.read_bytes(), self.authority.read_bytes()
        except OSError as cause:
            raise TerminalError(
                f"a certificate of this node cannot be read: {one_line(cause)}; correct certificate, key or authority "
                "in its configuration, or the permissions of the file"
            ) from cause


def load_node_config(path: Path) -> NodeConfig:
    """The configuration in a YAML file; `TerminalError` also if it holds a certificate or a key itself."""
    try:
        text = path.read_text()
        if _PEM in text:  # first, because an error may quote any part of the file
            raise TerminalError(
                f"the node configuration {path} holds a certificate or a key itself: write it to a file of its own, "
                "and the path of that file here", path=str(path),
            )  # fmt: skip
        return TypeAdapter(NodeConfig).validate_python(yaml.safe_load(text))
    except ValidationError as cause:
        first = cause.errors()[0]
        place = ".".join(map(str, first["loc"]))[:_LONGEST] or "the file"
        fault = str(first.get("ctx", {}).get("error", first["msg"]))[:_LONGEST]
        raise TerminalError(
            f"the node configuration {path} is wrong at {place}: {fault}; docs/node_shuffle.md lists its keys",
            path=str(path),
        ) from cause
    except _UNREADABLE as cause:
        raise TerminalError(
            f"the node configuration {path} cannot be read: {one_line(cause)[:_LONGEST]}", path=str(path)
        ) from cause


def configured_node(environ: Mapping[str, str]) -> NodeConfig:
    name = environ.get(CONFIG_VARIABLE, "")
    if not name:
        raise TerminalError(
            f"this batch keeps map outputs on nodes, but {CONFIG_VARIABLE} is not set here: set it to the path of the "
            "node configuration on every machine that runs tasks, Airflow's workers too"
        )
    return load_node_config(Path(name))
