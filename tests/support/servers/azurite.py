"""Blob storage of Azure as Microsoft's own emulator keeps it: Azurite, from npm's registry."""

import base64
import hashlib
import hmac
import os
import secrets
import shutil
import subprocess
import tempfile
import urllib.request
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final, Self

from obstore.store import AzureStore

from demo.servers.fetching import fetching
from demo.servers.free_port import free_port
from demo.servers.server_process import CACHE, ServerProcess, ServerUnavailableError, answers

__all__ = ["ACCOUNT", "Azurite", "node_packages", "node_program"]

ACCOUNT: Final = "lakeaccount"
LOCK: Final = Path(__file__).with_name("azurite_lock")
_API: Final = "2021-08-06"


@dataclass(kw_only=True)
class Azurite:
    """The blob service on 127.0.0.1 with one account; a context manager.

    Attributes:
        key: of the account, unlike any other text.
    """

    folder: Path
    key: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(32)).decode(), repr=False)
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Fetches it if need be, starts it and waits until it answers."""
        program = node_packages(LOCK) / "azurite" / "dist" / "src" / "blob" / "main.js"
        self.process = ServerProcess("azurite", self.folder)
        self.process.start(
            [node_program(), program, "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--inMemoryPersistence",
             "--skipApiVersionCheck", "--disableTelemetry", "--silent"],
            environ={"PATH": os.environ["PATH"], "AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"},
            is_ready=answers(f"http://127.0.0.1:{self.port}/", 400),
            seconds=60,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it at once: nobody needs its data any more."""
        self.process.kill()

    @property
    def endpoint(self) -> str:
        """The URL of the account."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def options(self) -> dict[str, str]:
        """The options that open a store on it; see `icefloe.storage.location.open_store`."""
        return {
            "account_name": ACCOUNT, "account_key": self.key, "endpoint": self.endpoint, "allow_http": "true",
        }  # fmt: skip

    @property
    def variables(self) -> dict[str, str]:
        """The variables that say the same to a process."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_ENDPOINT": self.endpoint, "AZURE_ALLOW_HTTP": "true",
        }  # fmt: skip

    def make_container(self, name: str) -> AzureStore:
        """A new container, as obstore sees it."""
        self._put(name, "restype=container")
        client: Any = {"allow_http": True}
        return AzureStore(name, config={**self.options}, client_options=client)  # type: ignore[arg-type]

    def _put(self, container: str, query: str) -> None:
        """An empty put of the account, signed as Azure's "Shared Key" is: obstore makes no containers."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API}
        signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
        text = "PUT" + "\n" * 12 + signed + f"/{ACCOUNT}/{ACCOUNT}/{container}\n{query.replace('=', ':')}"
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        request = urllib.request.Request(f"{self.endpoint}/{container}?{query}", method="PUT", headers=headers)
        urllib.request.urlopen(request, timeout=20).close()


def node_packages(lock: Path) -> Path:
    """The folder ``node_modules`` of a lock; fetches it the first time.

    Args:
        lock: folder of a ``package.json`` and its ``package-lock.json``, which has a digest of each package. It is made
            by ``npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved``.
    """
    digest = hashlib.sha256((lock / "package-lock.json").read_bytes()).hexdigest()
    place = CACHE / "npm" / f"{lock.name}-{digest[:16]}"
    with fetching(lock.name):
        if not place.is_dir():
            _fetch(lock, place)
    return place / "node_modules"


def node_program() -> str:
    """The program that runs them."""
    return _program("node")


def _fetch(lock: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{lock.name}-", dir=place.parent) as folder:
        made = Path(folder, "made")
        shutil.copytree(lock, made)
        # Nothing of them runs while they are fetched, and npm's own cache would keep them twice.
        done = subprocess.run(
            [_program("npm"), "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--cache",
             f"{folder}/cache"],
            cwd=made, env=os.environ, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise ServerUnavailableError(f"the packages of {lock.name} could not be fetched:\n{done.stderr[-2000:]}")
        # Whole or not there, also if this process is killed.
        made.rename(place)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServerUnavailableError(f"this server needs Node.js 20 or newer, and {name} is not on the path")
    return found
