"""All services of a compose file as plain processes, in the order of what they depend on."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import TopologicalSorter
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from demo.servers.server_process import as_user
from support.stack.image import Image
from support.stack.images import IMAGES
from support.stack.service import Service, Translation

__all__ = ["ServiceDiedError", "ServiceProcess", "Stack"]

_READY_SECONDS: Final = 300
_SECONDS_BETWEEN_LOOKS: Final = 0.5
_COMPLETED: Final = "service_completed_successfully"
_HEALTHY: Final = "service_healthy"
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
        """True if its health check says so."""
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


class Stack:
    """A context manager: starts every service, and ends each by its pid.

    Args:
        services: of the compose file.
        folder: of everything that they keep; what is there of an earlier time is removed.
        ports: the port here by the service's own.
        say: is told what happens.
        images: what stands for each image.
    """

    def __init__(
        self,
        services: Mapping[str, Service],
        *,
        folder: Path,
        ports: Mapping[int, int],
        say: Callable[[str], None],
        images: Mapping[str, type[Image]] = IMAGES,
    ) -> None:
        self.folder = folder
        self._services = services
        self._ports = ports
        self._say = say
        self._kinds = images
        self._images: dict[str, Image] = {}
        self._running: dict[str, ServiceProcess] = {}
        self._reached: set[str] = set()

    def __enter__(self) -> Self:
        """Starts all; a service waits for what it depends on, by the file's own conditions."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "logs").mkdir(parents=True)
        try:
            self._prepare()
            for service in self._in_order():
                for other, condition in service.depends_on.items():
                    self._wait(self._running[other], condition)
                self._start(service)
            for process in self._running.values():
                if not process.service.runs_once:
                    self._wait(process, _HEALTHY)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Ends all."""
        self.stop()

    def process(self, name: str) -> ServiceProcess:
        """The process of a service."""
        return self._running[name]

    def run(self, name: str, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Acts as `docker compose run NAME COMMAND`: another command with all that a service is given."""
        return self._running[name].run(command)

    def refuse_dead(self) -> None:
        """Stops whoever goes on while a service is gone."""
        for process in self._running.values():
            code = process.exit_code()
            if code is not None and not (process.service.runs_once and code == 0):
                raise ServiceDiedError(f"{process.service.name} ended with {code}:\n{process.last_words()}")

    def stop(self) -> None:
        """Ends what was started, all at once: nobody needs the others to end."""
        for process in reversed(self._running.values()):
            process.ask_to_end()
        for process in reversed(self._running.values()):
            process.stop()
        self._running.clear()
        for image in self._images.values():
            image.remove()

    def _prepare(self) -> None:
        for name in sorted({service.image for service in self._services.values()}):
            image = self._kinds[name](folder=self.folder / "images" / name.replace("/", "-"))
            self._images[name] = image
            image.folder.mkdir(parents=True)
            image.prepare()

    def _in_order(self) -> Iterator[Service]:
        names = TopologicalSorter({name: service.depends_on for name, service in self._services.items()})
        return (self._services[name] for name in names.static_order())

    def _start(self, service: Service) -> None:
        image = self._images[service.image]
        translate = Translation(hosts=self._services, ports=self._ports, folders=self._folders(service, image))
        process = ServiceProcess(service, image, translate, self.folder / "logs" / f"{service.name}.log")
        process.start()
        self._running[service.name] = process

    def _folders(self, service: Service, image: Image) -> dict[str, Path]:
        folders = dict(image.folders)
        for mount in service.mounts:
            source = self.folder / "volumes" / mount.source if mount.is_volume else Path(mount.source)
            if mount.target in image.folders:
                continue
            inside = [path for path in image.folders if mount.target.startswith(f"{path}/")]
            if inside:
                place = image.folders[inside[0]] / mount.target.removeprefix(f"{inside[0]}/")
                with suppress(FileExistsError):
                    place.symlink_to(source)
            else:
                source.mkdir(parents=True, exist_ok=True)
                folders[mount.target] = source
        return folders

    def _wait(self, process: ServiceProcess, condition: str) -> None:
        """Waits for one condition of ``depends_on``."""
        deadline = time.monotonic() + _READY_SECONDS
        while not _holds(process, condition):
            if time.monotonic() > deadline:
                raise ServiceDiedError(
                    f"{process.service.name} was not ready after {_READY_SECONDS} seconds:\n{process.last_words()}"
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if process.service.name not in self._reached:
            self._reached.add(process.service.name)
            self._say(f"{process.service.name}: {'done' if condition == _COMPLETED else 'healthy'}")


def _holds(process: ServiceProcess, condition: str) -> bool:
    if condition == _HEALTHY:
        return process.is_healthy()
    if condition == _COMPLETED:
        code = process.exit_code()
        if code not in (None, 0):
            raise ServiceDiedError(f"{process.service.name} ended with {code}:\n{process.last_words()}")
        return code == 0
    return process.exit_code() is None
