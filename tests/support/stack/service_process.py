"""One service as a plain process: its start, its health, its end."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from demo.servers.server_process import as_user
from support.stack.image import Image
from support.stack.service import Service

__all__ = ["ServiceDiedError", "ServiceProcess"]

_STOP_SECONDS: Final = 30
_HEALTH_CHECK_SECONDS: Final = 30
_LAST_CHARACTERS: Final = 3000


class ServiceDiedError(Exception):
    """A service ended that should not have, or never got ready."""


class ServiceProcess:
    """Runs a service with nothing of this process's own environment; its output goes to ``log``.

    Args:
        service: as the compose file has it.
        image: what stands for its image, prepared.
        translate: from names of containers to those of this machine.
        log: a file.
    """

    def __init__(self, service: Service, image: Image, translate: Callable[[str], str], log: Path) -> None:
        self.service = service
        self.log = log
        self._image = image
        self._translate = translate
        self._process: subprocess.Popen[bytes] | None = None
        self._started: list[psutil.Process] = []
        self._is_asked = False

    @property
    def environment(self) -> Mapping[str, str]:
        """The image's variables and the service's."""
        given = {name: self._translate(value) for name, value in self.service.environment.items()}
        return self._image.environment() | given

    def start(self) -> None:
        """Starts it; in no other way than its container would, as far as a process can tell."""
        self._image.before_start(self.environment)
        command = [self._translate(word) for word in self._image.command(self.service)]
        with self.log.open("ab") as log:
            self._process = self._popen(command, log.fileno())

    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def is_healthy(self) -> bool:
        """True if its health check says so.

        Raises:
            ServiceDiedError: it ended.
        """
        if (code := self.exit_code()) is not None:
            raise ServiceDiedError(f"{self.service.name} ended with {code}:\n{self.last_words()}")
        check = self._popen([self._translate(word) for word in self.service.health_check], subprocess.DEVNULL)
        try:
            return check.wait(_HEALTH_CHECK_SECONDS) == 0
        except subprocess.TimeoutExpired:
            check.kill()
            check.wait()
            return False

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Another command in its place, run to its end."""
        process = self._popen([self._translate(word) for word in command], subprocess.PIPE)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out.decode(), err.decode())

    def last_words(self) -> str:
        """The end of its output."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_LAST_CHARACTERS:]

    def ask_to_end(self) -> None:
        """Tells it once to end, if it runs, and remembers what it has started."""
        if self._process is not None and not self._is_asked and self._process.poll() is None:
            self._is_asked = True
            self._started = psutil.Process(self._process.pid).children(recursive=True)
            self._process.terminate()

    def stop(self) -> None:
        """Ends it and whatever it started, as the end of a container would."""
        if self._process is None:
            return
        self.ask_to_end()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for process in self._started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(self._started, timeout=_STOP_SECONDS)

    def _popen(self, command: list[str], output: int) -> "subprocess.Popen[bytes]":
        user = self._image.user
        return subprocess.Popen(
            command, cwd=self._image.working_folder, env=dict(self.environment), stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, start_new_session=True,
            **as_user(user),
        )  # fmt: skip
