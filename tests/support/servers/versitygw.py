"""An S3 store on plain files: versitygw, built from its Go module the first time."""

import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from obstore.store import S3Store

from demo.servers.fetching import fetching
from demo.servers.free_port import free_port
from demo.servers.server_process import CACHE, ServerProcess, ServerUnavailableError, answers
from support.servers.wheel import find_go

__all__ = ["REGION", "Versitygw", "build_versitygw"]

REGION: Final = "us-east-1"
VERSION: Final = "v1.8.0"
MODULE: Final = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
BINARY: Final = CACHE / "bin" / f"versitygw-{VERSION}"


def build_versitygw() -> Path:
    """The binary in the cache; builds it where it is not there."""
    with fetching("versitygw"):
        return BINARY if BINARY.is_file() else _build()


def _build() -> Path:
    go = find_go()
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    # A module cache of its own, gone afterwards: Go's usual one would keep half a gigabyte in the home folder.
    with tempfile.TemporaryDirectory(prefix="versitygw-", dir=CACHE) as folder:
        places = {"GOPATH": f"{folder}/go", "GOCACHE": f"{folder}/build", "GOBIN": f"{folder}/bin"}
        environ = {**os.environ, **places, "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()}
        built = subprocess.run([go, "install", MODULE], env=environ, capture_output=True, text=True)
        if built.returncode != 0:
            raise ServerUnavailableError(f"versitygw, an S3 store for tests, was not built:\n{built.stderr[-2000:]}")
        # Whole or not there, also if this process is killed.
        Path(folder, "bin", "versitygw").rename(BINARY)
    return BINARY


@dataclass(kw_only=True)
class Versitygw:
    """A store on 127.0.0.1 whose buckets are folders below ``folder/data``; a context manager.

    Attributes:
        access_key: of the root account.
        secret_key: unlike any other text, so that it can be searched for.
    """

    folder: Path
    access_key: str = field(default_factory=lambda: f"root{secrets.token_hex(6)}")
    secret_key: str = field(default_factory=lambda: f"planted{secrets.token_hex(16)}", repr=False)
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Builds it if need be, starts it and waits until it answers."""
        self._binary = build_versitygw()
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "accounts").mkdir()
        self.process = ServerProcess("versitygw", self.folder)
        self.process.start(
            [self._binary, "--quiet", "--port", f"127.0.0.1:{self.port}", "--region", REGION,
             "--iam-dir", self.folder / "accounts", "posix", self.folder / "data"],
            environ={
                "PATH": os.environ["PATH"], "ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key
            },
            is_ready=answers(self.endpoint, 403),
            seconds=30,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.process.stop()

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """The options that open a store on it; see `icefloe.storage.location.open_store`."""
        return {
            "access_key_id": self.access_key, "secret_access_key": self.secret_key,
            "endpoint": self.endpoint, "region": REGION, "allow_http": "true",
        }  # fmt: skip

    @property
    def file_io(self) -> dict[str, str]:
        """The properties by which PyIceberg's FileIO reads and writes its objects."""
        return {
            "s3.endpoint": self.endpoint, "s3.region": REGION,
            "s3.access-key-id": self.access_key, "s3.secret-access-key": self.secret_key,
        }  # fmt: skip

    def make_bucket(self, name: str) -> S3Store:
        """A new bucket, as obstore sees it."""
        self._admin("create-bucket", "--owner", self.access_key, "--bucket", name)
        client: Any = {"allow_http": True}
        return S3Store(name, config={**self.options}, client_options=client)  # type: ignore[arg-type]

    def add_account(self, role: str = "admin") -> tuple[str, str]:
        """A new account that may do everything, or as a user what policies of buckets allow; its key and its secret."""
        key, secret = f"user{secrets.token_hex(6)}", f"planted{secrets.token_hex(16)}"
        self._admin("create-user", "--access", key, "--secret", secret, "--role", role)
        return key, secret

    def set_policy(self, bucket: str, policy: str) -> None:
        """Gives a bucket a policy, a JSON document."""
        curl = shutil.which("curl")
        if curl is None:
            raise ServerUnavailableError("policies of buckets are set by curl, which is not on the path")
        signed = ["--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", f"{self.access_key}:{self.secret_key}"]
        digest = ["--header", f"x-amz-content-sha256: {hashlib.sha256(policy.encode()).hexdigest()}"]
        command = [curl, "--silent", "--show-error", "--fail-with-body", *signed, *digest, "--request", "PUT"]
        url = f"{self.endpoint}/{bucket}?policy="
        done = subprocess.run([*command, "--data-binary", "@-", url], input=policy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def remove_account(self, key: str) -> None:
        """Ends an account: the store refuses it from now on."""
        self._admin("delete-user", "--access", key)

    def _admin(self, *arguments: str) -> None:
        command = [str(self._binary), "admin", "--endpoint-url", self.endpoint, *arguments]
        environ = {"ADMIN_ACCESS_KEY": self.access_key, "ADMIN_SECRET_KEY": self.secret_key, "ADMIN_REGION": REGION}
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
